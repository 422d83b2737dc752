"""Tests of the quota engine."""
