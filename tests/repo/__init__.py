"""Facts about the repository itself: words, documents, rules and targets that agree."""
