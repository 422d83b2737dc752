"""Choice of the workloads that must go so that a workload fits. Chooses only; evicts nobody."""
