"""Tests of wiring, processes, pages and certificates."""
