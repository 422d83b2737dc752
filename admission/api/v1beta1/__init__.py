"""The older version of every kind, served for existing manifests; v1beta2 is what is stored.

Only what differs from v1beta2 is written here. Source: kueue apis/kueue/v1beta1.
"""
