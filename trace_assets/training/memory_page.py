"""The table of memory in `docs/training.md`: `python -m trace_assets.training.memory_page` prints it."""

from __future__ import annotations

from trace_assets.training.memory import GIB, SHAPES, step_memory
from trace_assets.training.presets import load_preset

EPISODE_TOKENS = 8192
"""Of the longest episode in the table."""
CONCURRENCY = (16, 64)


def table() -> str:
    """Return the rows of both shapes with the settings of the preset for one device, in Markdown."""
    lines = [
        "| model | rank | episodes in flight | weights | adapter | engine | cache | activations | sum, GiB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rank in (("qwen3-4b", 16), ("qwen3-30b-a3b", 16), ("qwen3-30b-a3b", 32)):
        for concurrency in CONCURRENCY:
            section = load_preset("qwen3-4b-1gpu", lora_rank=rank, concurrency=concurrency)
            memory = step_memory(SHAPES[name], section, EPISODE_TOKENS)
            parts = (memory.weights, memory.adapter, memory.engine, memory.cache, memory.activations)
            figures = " | ".join(f"{part / GIB:.1f}" for part in (*parts, memory.total))
            lines.append(f"| {name} | {rank} | {concurrency} | {figures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
