"""What was seen of objects: each as its newest version, whoever told of it."""
