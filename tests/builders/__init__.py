"""Objects that tests need, one module per subject.

`make_KIND` returns a document of the API as a user writes it, `queued_KIND` as the webhook leaves
it, `KIND_view` what the program decodes a stored document to, and `KIND_value` what scheduling
works on. Amounts are quantity text.
"""
