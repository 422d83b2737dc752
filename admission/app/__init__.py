"""Composition root: the only place that builds objects and wires them together."""
