"""Facts about the repository itself: sizes, words, documents and targets that agree."""
