"""Objects as the API server stores and sends them, and configuration files as people write them.

Two readings of Kueue's objects. ``v1beta2`` and ``v1beta1`` (pydantic) are the schema of record,
from which ``crds/`` is generated; `conversion` turns one into the other. ``views`` (msgspec) holds
the parts of each object that the program reads on its hot paths. No rule about quota belongs here.
"""
