"""Types that every other package may use: quantities, amounts, selectors, clock, errors, threads.

Also names of labels, annotations and resources; metrics; logs; reasons and texts of conditions and
events; which namespaces are managed, what a pod requests, and patches, field errors and the syntax
of names as values. Nothing here knows of quota, HTTP or how objects are stored.
"""
