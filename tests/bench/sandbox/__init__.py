"""What a sandbox costs here, against its targets: `python -m tests.bench.sandbox`."""

from trace_assets.sandbox.timing import ACTION, EXAMPLE, Figure, speed

__all__ = ["ACTION", "EXAMPLE", "Figure", "speed"]
