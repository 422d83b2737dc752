"""Answers to people: why a pod waits, and the controller's read-only pages.

Reads published snapshots; never the live state.
"""
