"""Environments that are sound in themselves but are not like the target."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal

FAULTS: tuple[Animal, ...] = (
    Animal(
        "other tool type",
        "trace.fidelity.schema",
        "door",
        (('{"type": "string"}', '{"type": ["string", "null"]}'),),
    ),
    Animal("other tool words", "trace.fidelity.schema", "door", (("See a door.", "Look at a door."),)),
    Animal(
        "other answers",
        "trace.fidelity.result_shape",
        "door",
        (('return "ok", False', 'return "opened", False'),),
        real=True,
    ),
    Animal(
        "errors as JSON where the target writes text",
        "trace.fidelity.error_shape",
        "door",
        (('return "no such thing", True', 'return \'{"error": "no such thing"}\', True'),),
        real=True,
    ),
    Animal(
        "looks after the act instead of before it",
        "trace.fidelity.tool_ngrams",
        "door",
        (
            (
                'looked = episode["calls"][:1] == ["get_door"]',
                'looked = episode["calls"][-1:] == ["get_door"]',
            ),
            (
                'names = ["get_door", "report_door" if alarmed else "unlock_door"]',
                'names = ["report_door" if alarmed else "unlock_door", "get_door"]',
            ),
        ),
        real=True,
    ),
    Animal(
        "five looks and a speech",
        "trace.fidelity.lengths",
        "door",
        (
            ('{rng.choice(WISHES)} {door}."', '{rng.choice(WISHES)} {door}." + " now" * 40'),
            ('names = ["get_door", "report_door"', 'names = 5 * ["get_door"] + ["report_door"'),
        ),
        real=True,
    ),
    Animal(
        "a user who words it otherwise",
        "trace.fidelity.auc",
        "door",
        (
            (
                'f"{rng.choice(PEOPLE)} here, {rng.choice(WISHES)} {door}."',
                'f"{door}: {rng.choice(WISHES)}, says {rng.choice(PEOPLE)}!"',
            ),
        ),
        real=True,
    ),
)
