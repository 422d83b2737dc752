"""The admission edge: bytes to AdmissionReview, policy, bytes back. HTTP and caches only."""
