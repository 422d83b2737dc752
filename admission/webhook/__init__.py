"""The admission edge: bytes to AdmissionReview or ConversionReview, policy, bytes back.

HTTP, the cache that reviews look up, metrics of reviews, and the webhook configurations. What a
review decides is in `policy`.
"""
