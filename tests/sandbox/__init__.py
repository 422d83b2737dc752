"""Tests of `admission.sandbox`; `tests/contract` compares its API server with a real one."""
