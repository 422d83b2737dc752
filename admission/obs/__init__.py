"""Logs and metrics: how the program tells what it does. Never decides anything."""
