"""In which domains of a topology the pods of a workload go.

`request` says how close pods must be, `tree` which domains there are, `leaves` how many pods each
of the narrowest takes, `search` which of them get the pods, `replacement` where pods of a lost
node go. Nothing here knows of quota.
"""
