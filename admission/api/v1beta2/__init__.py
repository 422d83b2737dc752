"""The stored version of every kind of the group ``kueue.x-k8s.io``: one module per kind.

Source: kueue apis/kueue/v1beta2. Fields, limits, defaults and messages are those of Kueue;
a change here breaks clients of Kueue's API.
"""
