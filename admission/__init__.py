"""GPU quota and admission for Kubernetes, wire-compatible with Kueue.

"Admission" in this package means quota: a workload is admitted when its GPUs are its own. The
HTTP side of the API server's admission speaks of reviews that allow or deny. The package's name
is the one exception.
"""
