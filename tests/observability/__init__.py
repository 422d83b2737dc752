"""Tests of deploy/observability, and what makes its files."""
