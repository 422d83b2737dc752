"""Tests of answers to people."""
