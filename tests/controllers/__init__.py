"""Tests of admission.controllers."""
