"""Environments of a fifth set: domains and kinds that no author of a check had in mind."""
