"""Targets in an interpreter of their own: a module there, a strict pipe to it, a pool of workers."""
