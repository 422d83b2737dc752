"""The caches of watched objects: the newest version of each, from a watch or from an answer."""
