"""Owners: what asks for pods, and what its Workload is made from.

`framework` says what the controller needs to know of an owner; `pod` and `batch_job` say it for
one kind each. Everything here is a pure function of an owner and its Workload: it talks to no API
server and keeps no state.
"""
