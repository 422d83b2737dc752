"""The parts of the embedded store: what an API server does to objects, without HTTP and etcd.

``journal`` keeps objects and their history, ``kinds`` says how each resource is treated, the rest
are the rules. Nothing here knows of quota. `admission.sandbox.store` is the face of it all, and
the contract tests hold it to the behaviour of a real kube-apiserver.
"""
