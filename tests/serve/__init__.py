"""Tests of pages and of APIs that pages and programs read."""
