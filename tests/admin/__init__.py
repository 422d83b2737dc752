"""Tests of what is run on a cluster."""
