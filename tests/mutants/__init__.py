"""Mutation testing: small faults are put into the code, and tests must notice them."""
