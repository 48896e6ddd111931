"""Episodes at scale: bounded concurrency, a journal to resume from, faults kept apart from failures."""
