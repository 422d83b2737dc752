"""Logs: one form for both processes, on stderr. Never decides anything.

Metrics are defined in ``base.metrics``.
"""
