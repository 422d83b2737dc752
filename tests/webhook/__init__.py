"""Tests of the admission edge: HTTP, caches."""
