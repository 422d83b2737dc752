"""Tests of admission.app."""
