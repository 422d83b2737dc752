"""Tests of what is installed into a cluster."""
