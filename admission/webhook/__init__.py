"""The admission edge: bytes to AdmissionReview or ConversionReview, policy, bytes back.

HTTP, the cache that reviews look up, and metrics of reviews. What a review decides is in `policy`.
"""
