"""API objects to values of `engine` and `gpu` and back; configuration files to settings and back.

Pure functions: equal input gives equal output. Counting GPUs as a ClusterQueue does is here, too.
"""
