"""Sound environments: each is one self-contained module that the sandbox runs and every check accepts."""
