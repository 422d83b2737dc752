"""Quota and queues: who waits, who holds what, and who gets quota next.

`state` keeps queues and usage between cycles; `cycle` makes decisions of a snapshot, the first
Workloads of the queues and a time. PURE: no I/O, no clock, no logging, no threads, no objects of
the API; imports only `base`. `admission.controller` carries decisions out.
"""
