"""What the processes of containers import when they start."""
