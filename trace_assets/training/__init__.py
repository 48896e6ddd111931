"""Everything that changes weights: the tiny base model, GRPO adapters, and the proof that they are applied."""
