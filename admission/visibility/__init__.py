"""Why a pod waits, which Workloads a queue has, and the controller's pages over HTTP.

`why` reads objects from the API server. The lists of waiting Workloads are Kueue's visibility API,
and the same on our pages: they are made in the thread of the request from one copy of one queue's
line. Who may ask is decided by the API server: it passes requests on in the name of its users, and
is asked for each of them what they may do. What the controller knows is asked of its core thread,
which answers with values that never change; nothing here reads live state.
"""
