"""Defaults and rules of Kueue's kinds: flavors, queues, cohorts and Workloads under review.

Each rule is one row of a table in the module of its kind, found by its message. Rows of the
schema and its CEL stand in ``api``; nothing here reads the cluster or HTTP.
"""
