"""The controller: take what is watched, decide when to run a cycle, make requests from its result.

Who gets quota is decided by `admission.scheduling`. Layers, each above those that it may import
from: `core`; `effects`, `quarantine` and `watched`; `scheduler`; `explaining`, `queries` and `trace`;
`jobs`; `pods`; `queues`; `devices`; `workloads`; `seeing` and `writing`. All of it but the writer
threads and the list of others' pods runs on the core thread.
"""
