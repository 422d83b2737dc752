"""Tests of what a review decides."""
