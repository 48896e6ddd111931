"""Environments of an eighth set: each a whole module with a frame of its own, as many writers make them."""
