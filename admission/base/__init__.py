"""Values that every other package may use: names, quantities, amounts, selectors, clock, errors.

Nothing here knows of Kubernetes objects, quota or HTTP. Test: could it be a library of its own?
"""
