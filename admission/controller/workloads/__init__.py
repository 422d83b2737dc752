"""Workloads, whoever owns them: conditions, statuses, evictions, checks and upkeep."""
