"""The dashboard: pages for people, read-only, each with what `kubectl` would show the caller."""
