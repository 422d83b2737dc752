"""Tests of the controller, turned by hand on the embedded store."""
