"""Environments that are sound in themselves but are not like the target."""

from __future__ import annotations

from trace_assets.synthesis.zoo.animal import Animal

FAULTS: tuple[Animal, ...] = (
    Animal(
        "other tool type",
        "trace.fidelity.schema",
        "door",
        (('{"type": "string"}', '{"type": ["string", "null"]}'),),
    ),
    Animal("other tool words", "trace.fidelity.schema", "door", (("See a door.", "Look at a door."),)),
)
