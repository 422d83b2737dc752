"""The objects of an installation, and how they are installed and uninstalled.

Manifests, roles, webhook configurations, policies in the API server, their modes, backups.
"""
