"""Pure GPU knowledge: catalogue, placement, rewriting, equivalents, LimitRanges, bypass rules.

Values in, values out: no I/O, no clock, no API objects. What a review or a controller does with
an answer is decided above. The one file read here is the packaged MIG table (catalogue.load).
"""
