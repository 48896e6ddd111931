"""What a sandbox costs here, against its targets: `python -m trace_assets.sandbox.bench`."""

from trace_assets.sandbox.bench.example import ACTION, EXAMPLE
from trace_assets.sandbox.bench.figure import Figure
from trace_assets.sandbox.bench.speed import speed

__all__ = ["ACTION", "EXAMPLE", "Figure", "speed"]
