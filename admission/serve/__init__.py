"""The controller's pages and APIs over HTTP: probes, Kueue's visibility API, the dashboard.

The lists of waiting Workloads are made in the thread of the request from one copy of one queue's
line. Who may ask is decided by the API server: it passes requests on in the name of its users, and
is asked for each of them what they may do. What the controller knows is asked of its core thread,
which answers with values that never change; nothing here reads live state.
"""
