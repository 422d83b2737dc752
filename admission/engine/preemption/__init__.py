"""Choice of the holdings that must go so that a workload fits. Chooses only; evicts nobody."""
