"""Answers to people's questions: why a pod waits, who holds, lends and waits, what was used.

`cluster` reads the objects that an answer needs, with the caller's rights, and puts them in
relation to each other. Every other module is functions of that, or of what the controller has in
memory; commands, pages and the doctor print what they return.
"""
