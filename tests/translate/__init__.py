"""Tests of translate."""
