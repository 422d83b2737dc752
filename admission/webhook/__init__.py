"""Admission reviews: requests over HTTP, decisions, and answers.

`pod_review` and `owner_review` decide about pods and owners, `kinds` about Kueue's kinds with the
rules of `objects`, `convert` converts between versions; they are pure. `server` and `asgi` are
HTTP, `lister` is the cache that reviews look up.
"""
