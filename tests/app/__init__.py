"""Tests of wiring, processes, installation and the demo."""
