"""An agent with random weights: takes a second, and is enough to try an engine with."""

from __future__ import annotations

from pathlib import Path

from trace_assets.training.demo_agent.model import TINY, AgentShape, new_agent, new_tokenizer, save_agent


def make_untrained(folder: Path, seed: int = 0, shape: AgentShape = TINY) -> Path:
    """Write one into a folder, and return it."""
    tokenizer = new_tokenizer()
    save_agent(new_agent(tokenizer, seed, shape), tokenizer, folder)
    return folder
