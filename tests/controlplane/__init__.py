"""A real Kubernetes control plane for tests: compiled from Go modules, started on loopback ports.

``build`` compiles the programs into a cache folder, ``cluster`` runs them, ``plugin`` gives pytest
its fixtures. ``build``, ``programs`` and ``toolchain`` run on a bare Python, without any package.
"""
