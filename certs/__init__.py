"""Certificates of the webhook: CAs, serving certificate, rotation, files.

Knows only ``cryptography``.
"""
