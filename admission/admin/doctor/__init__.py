"""The checks of ``doctor``: what is wrong in a cluster with gpu-admission, and what to do.

`picture` reads the cluster once, without changing it. Each check is a function of that picture,
in a module by subject; `checks` is the table of all of them. `gathering` packs what somebody else
needs to help.
"""
