"""Environments for one capability, "cancel only what the rule allows": sound ones, and broken ones."""
