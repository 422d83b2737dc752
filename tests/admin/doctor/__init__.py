"""What is wrong in a cluster is found, and its mend named."""
