"""API objects to engine values and back. Pure functions, no memory, no decisions."""
