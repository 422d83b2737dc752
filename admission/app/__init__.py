"""Composition root: builds objects, wires them, and starts and stops processes.

Also what an installation consists of: manifests, roles, policies in the API server, certificates.
It may know all other packages but `sandbox` and `cli`.
"""
