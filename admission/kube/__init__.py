"""The only code that talks to an API server, real or embedded.

Credentials, HTTP, client, reflector, server-side apply, events, lease. Objects are documents
with metadata.
"""
