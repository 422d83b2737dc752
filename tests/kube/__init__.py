"""Tests of the client side and the embedded store: reflector, events, lease, transport, store."""
