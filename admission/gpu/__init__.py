"""Pure GPU knowledge: products, MIG placement, cost, rewriting, claims, health, bypass rules.

Values in, values out: no I/O, no clock; `bypass_rules` reads a pod as the API server sends it.
What a review or a controller does with an answer is decided above. The one file read here is the
packaged table of products (`catalogue.load`).
"""
