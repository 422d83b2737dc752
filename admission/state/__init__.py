"""What the controller knows: observed objects, usage and pending queues.

The only mutable domain state of the program. One thread owns it; nothing here locks or does I/O.
"""
