"""Tests of the certificates that the webhook serves with."""
