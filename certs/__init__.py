"""Certificates of the webhook: CA, serving certificate, files. Knows only ``cryptography``."""
