"""Configuration files: Kueue's ``Configuration`` and our ``GpuConfiguration``.

Here is what may be written, how it is read and checked, and what it means.
"""
