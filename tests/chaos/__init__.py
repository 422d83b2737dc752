"""Faults on purpose: killed processes, lost answers, broken watches, two leaders."""
