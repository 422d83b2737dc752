"""PURE quota engine: a snapshot, heads and a time in, decisions out.

No I/O, no clock, no logging, no threads, no wire objects; imports only ``base``. Who holds the
snapshot between cycles is ``state``; who carries out a decision is ``controllers``.
"""
