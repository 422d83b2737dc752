"""Composition: makes all that the controller's thread works with, each with what it uses."""
