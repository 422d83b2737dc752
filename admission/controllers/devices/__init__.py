"""GPUs that exist, who holds them, and what claims and pods ask of them."""
