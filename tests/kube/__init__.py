"""Tests of the client side: reflector, events, lease, transport."""
