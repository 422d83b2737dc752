"""Tests of the words for reasons, and of what changes if they change."""
