"""Who writes an environment module: recipes offline, or a language model."""
