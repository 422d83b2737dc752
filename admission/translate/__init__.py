"""API objects to values of `scheduling` and `gpu` and back; configuration files to settings.

Pure functions: equal input gives equal output. Counting GPUs as a ClusterQueue does is here, too.
"""
