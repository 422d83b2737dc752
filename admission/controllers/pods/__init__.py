"""Pods and the Workloads that stand for them."""
