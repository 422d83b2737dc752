"""What a review decides: pure functions of (old object, new object, context).

They answer with patch operations, field errors and warnings. HTTP belongs to ``webhook``.
"""
