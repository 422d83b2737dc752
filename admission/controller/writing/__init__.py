"""What is written to the API server: which writes, whose turn it is, and how many at once."""
