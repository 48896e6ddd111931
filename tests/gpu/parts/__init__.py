"""One module a part, each with a function `run`."""
