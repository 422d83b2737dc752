"""Tests of configuration files and settings."""
