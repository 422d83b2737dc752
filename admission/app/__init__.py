"""Composition root: builds objects, wires them, and starts and stops processes.

Also what an installation consists of: manifests, roles, policies in the API server, certificates;
and the demo's sandbox. The only package that may know all others but `cli`.
"""
