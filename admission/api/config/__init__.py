"""Configuration files: Kueue's ``Configuration``, our ``GpuConfiguration``, and their reader.

What a setting means stands in ``admission.settings``; here is only what may be written.
"""
