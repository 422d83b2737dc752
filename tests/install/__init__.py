"""Tests of what an installation consists of."""
