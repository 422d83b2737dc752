"""Tests of the wire models, the schemas and the conversion."""
