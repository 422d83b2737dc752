"""Queues, cohorts, flavors and classes as configured; their statuses, metrics and finalizers."""
