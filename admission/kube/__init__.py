"""The only code that talks to an API server, real or embedded.

Credentials, HTTP, client, reflector, server-side apply, events, lease, and the embedded
API server. Objects are documents with metadata, but for the rules that the embedded one has.
"""
