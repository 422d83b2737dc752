"""Kinds of objects: how each is read, its schema, its validation, its value of `scheduling`.

One module per kind. A field of one of Kueue's kinds is declared once (ADR 0004); `kinds` lists
them, and `crds` writes their definitions. `views` has what is read of Kubernetes' own kinds. What
a pod requests is computed in `base.pod_resources`; `pods` reads a pod for it. `reviewed_pod` is a
pod as it is reviewed. `values` has the parts that several kinds share, as values of scheduling.
No module here talks to an API server or keeps state.
"""
