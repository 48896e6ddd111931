"""Everything that changes weights: the tiny base, GRPO adapters, and the proof that they are applied."""
