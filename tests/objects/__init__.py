"""Tests of kinds of objects: how they are read, and what the API server makes of them."""
