"""Tests of values that every package uses."""
