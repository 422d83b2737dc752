"""Kueue's ``Configuration`` and our ``GpuConfiguration``: the configuration file is the settings.

The models say what may be written and what it means; they are read, checked and shown here.
"""
