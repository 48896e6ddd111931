"""The tables of memory in `docs/training.md`: `python -m tests.docs.memory` prints them."""

from __future__ import annotations

from trace_assets.training.presets import EPISODE_TOKENS, GIB, SHAPES, load_preset, server_memory, step_memory

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


def mixture_table() -> str:
    """Return what the preset for eight devices takes on each of those that train, and of those that serve."""
    lines = [
        "| on each of four that | weights | adapter | cache | activations | gathered | sum, GiB |",
        "|---|---|---|---|---|---|---|",
    ]
    section, shape = load_preset("qwen3-30b-a3b-8gpu"), SHAPES["qwen3-30b-a3b"]
    for name, memory in (
        ("train", step_memory(shape, section, EPISODE_TOKENS)),
        ("serve", server_memory(shape, section, EPISODE_TOKENS, len(section.sampler_gpus.split(",")))),
    ):
        parts = (memory.weights, memory.adapter, memory.cache, memory.activations, memory.gathered)
        figures = " | ".join(f"{part / GIB:.1f}" for part in (*parts, memory.total))
        lines.append(f"| {name} | {figures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(), mixture_table(), sep="\n\n")
