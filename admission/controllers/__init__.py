"""Level-based loops: watch, make Workloads, decide, write, ungate.

Carries out the engine's decisions; takes none itself. Rooms, each above those that it may import
from: ``core`` and what only it uses, ``jobs``, ``pods``, ``queues``, ``devices``, ``workloads``,
``seeing`` and ``writing``.
"""
