"""batch/v1 Jobs and the Workloads that stand for them."""
