"""Tests of parity."""
