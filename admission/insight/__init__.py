"""Answers to people: why a pod waits, who waits in a queue, and the controller's pages over HTTP.

`why` reads objects from the API server. What the controller knows is asked of its core thread,
which answers with values that never change; nothing here reads live state.
"""
