"""Tests of the command line: what is printed, and with which exit code."""
