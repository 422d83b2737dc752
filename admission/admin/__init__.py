"""What is run on a cluster: install, init, migrate, doctor, must-gather, backups, break glass.

The objects of an installation are made here, too: manifests, roles, webhook configurations,
policies in the API server, and their modes. Nothing that runs in the cluster imports this package.
"""
