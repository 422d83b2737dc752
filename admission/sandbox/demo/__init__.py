"""The demo's world: a sample cluster, pods that come and go, and what is to be seen of them."""
