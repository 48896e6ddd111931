"""Environments that teach the base policy nothing: always solved, never solved, no contrast in a group."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal

FAULTS = (
    Animal("never solved", "trace.pass_band", "door", (), knows=lambda seed, trial: False),
    Animal("always solved", "trace.pass_band", "door", (), knows=lambda seed, trial: True),
    Animal(
        "half of the seeds always solved",
        "trace.dead_groups",
        "door",
        (),
        knows=lambda seed, trial: seed % 2 == 0,
    ),
    Animal(
        "one seed in sixteen solved",
        "trace.predicted_signal",
        "door",
        (),
        knows=lambda seed, trial: seed == 2_000_004,
        section=(("max_dead_groups", 1.0), ("audit_seeds", 16)),
    ),
)
