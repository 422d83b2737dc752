"""A controller core against a simulated API server, on simulated time."""
