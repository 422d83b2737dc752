"""Tests of gpu-admission, by layer."""
