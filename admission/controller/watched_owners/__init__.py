"""Owners: caches of pods and Jobs, and the writes to them and to their Workloads.

`Owners` serves every kind from its row in `admission.owners.integrations`; `pods` and `jobs` add
what only those kinds have.
"""
