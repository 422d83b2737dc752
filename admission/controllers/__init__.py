"""Level-based loops: watch, make Workloads, decide, write, ungate.

Carries out the engine's decisions; takes none itself.
"""
