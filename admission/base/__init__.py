"""Values that every other package may use: quantities, amounts, selectors, clock, errors, threads.

Also the names of labels, annotations, conditions and resources, and which namespaces are managed.
Nothing here knows of quota, HTTP or the objects themselves.
"""
