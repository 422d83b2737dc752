"""Tests of answers to people's questions."""
