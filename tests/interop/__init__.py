"""The real operators of other frameworks, run against gpu-admission (`make interop`)."""
