"""Chooses the workloads to preempt so that a workload fits; evicts none itself."""
