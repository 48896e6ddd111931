"""Diagnosis: who failed, what was lacking, how sure that is, and what is worth teaching."""
