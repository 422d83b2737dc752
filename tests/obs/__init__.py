"""Tests of obs."""
