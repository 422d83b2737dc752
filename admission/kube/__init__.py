"""The only code that talks to an API server, real or embedded.

Client, reflector, patches, events, lease, and the embedded store that behaves like the real one
within its scope. Knows objects only as documents with metadata.
"""
