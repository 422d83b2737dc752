"""Owners: what is seen of pods and Jobs, what is written about them and their Workloads.

`Owners` serves every kind from its row in `admission.owners.integrations`; `pods` and `jobs` add
what only those kinds have.
"""
