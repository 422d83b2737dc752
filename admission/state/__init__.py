"""What decisions are made from: queues, usage, pending Workloads, and what they are waiting for.

Belongs to one thread; nothing here locks or does I/O. What is known of pods, Jobs and nodes is in
`controllers`.
"""
