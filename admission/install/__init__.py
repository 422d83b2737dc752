"""What an installation consists of, written into a cluster and taken out again.

Manifests, roles, webhook configurations, policies in the API server, their modes, backups.
"""
