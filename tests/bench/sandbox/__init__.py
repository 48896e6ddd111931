"""What a sandbox costs here, against its targets: `python -m tests.bench.sandbox`."""

from trace_assets.sandbox.timing import ACTION, EXAMPLE
from trace_assets.sandbox.timing import Figure
from trace_assets.sandbox.timing import speed

__all__ = ["ACTION", "EXAMPLE", "Figure", "speed"]
