"""A home in an object store: contents by hash, and one small object that says which of them it is."""
