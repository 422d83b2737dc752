"""Who waits in a queue, and at which place: Kueue's visibility API, and the same on our pages.

Answers are made in the thread of the request from one copy of one queue's line. Who may ask is
decided by the API server: it passes requests on in the name of its users, and is asked for each of
them what they may do.
"""
