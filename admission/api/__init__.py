"""Wire models: what the API server stores and sends.

Two readings of the same objects. ``v1beta2`` and ``v1beta1`` (pydantic) are the schema of record,
from which ``crds/`` is generated. ``views`` (msgspec) holds the parts of each object that the
program reads on its hot paths. No rule about quota belongs here.
"""
