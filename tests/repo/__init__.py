"""Facts about the repository itself: sizes, words, documents, rules and targets that agree."""
