"""Composition root: builds objects, wires them, and starts and stops processes.

Also the renewal of certificates. It may know all other packages but `admin`, `sandbox` and `cli`.
"""
