"""Environments of a seventh set: written from the docs alone, before the audit's program was read."""
