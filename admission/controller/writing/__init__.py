"""Writes to the API server: their content, their order, and how many are sent at once."""
