"""Environments that are sound in themselves but are not like the target."""

from __future__ import annotations

from trace_assets.synthesis.zoo.animal import Animal

FAULTS: tuple[Animal, ...] = (
    Animal(
        "other tool type",
        "runtime.tool_declaration_accuracy",
        "door",
        (('{"type": "string"}', '{"type": ["string", "null"]}'),),
    ),
    Animal(
        "other tool words", "runtime.tool_declaration_accuracy", "door", (("See a door.", "Look at a door."),)
    ),
)
