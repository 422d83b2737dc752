"""Whether the pods of a workload can be on nodes at once, and on which.

`predicate` says which nodes take a pod and how many of them, `ledger` what is free on each node,
`search` where the pods of several pod sets go, `enforcement` in which flavors that decides.
Nothing here knows of quota.
"""
