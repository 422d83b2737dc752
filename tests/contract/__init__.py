"""One suite for every API server: what the embedded store does, a real kube-apiserver does too."""
