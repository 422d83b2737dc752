"""Tests of the GPU knowledge."""
