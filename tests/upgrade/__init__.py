"""An older version and this one, one after the other in one cluster, there and back."""
