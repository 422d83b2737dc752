"""What an installation has in the cluster, for who installs it and for what runs there.

Names of its certificates and webhook configurations, and the caBundles by which API servers trust
it.
"""
