"""Owners and their Workloads, as pure functions."""
