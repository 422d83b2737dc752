"""The controller: take what is watched, decide when to run a cycle, make requests from its result.

Who gets quota is decided by `admission.scheduling`. `pyproject.toml` lists the layers. All of it
but the writer threads and the list of others' pods runs on the core thread.
"""
