"""Tests of the rules of Kueue's kinds; the cases also run against a real API server."""
