"""The audit's policy: how much each check weighs, and what it demands. Edited only with a new version."""

from __future__ import annotations

from typing import Literal

Severity = Literal["error", "warning", "info"]

POLICY_VERSION = "1"

SEVERITIES: dict[str, Severity] = {
    "trace.parses": "error",
    "trace.declares_functions": "error",
    "trace.imports_allowed": "error",
    "runtime.startup": "error",
    "runtime.observation_schema": "error",
    "runtime.reward_well_formed": "error",
    "runtime.tool_declaration_accuracy": "error",
    "runtime.seed_control": "error",
    "runtime.episode_determinism": "error",
    "runtime.episode_isolation": "error",
    "trace.seed_diversity": "error",
    "trace.latency": "warning",
    "semantic.oracle_max": "error",
    "semantic.floor_gap": "error",
    "semantic.verifier_determinism": "error",
    "trace.attacker.always_refuse": "error",
    "trace.attacker.echo": "error",
    "trace.attacker.random_legal": "error",
    "trace.attacker.repeat_first": "error",
    "trace.attacker.same_tool": "error",
    "trace.attacker.spam_all": "error",
    "trace.attacker.other_seed": "error",
    "trace.pass_band": "error",
    "trace.dead_groups": "error",
    "trace.predicted_signal": "warning",
}
"""Check id -> severity. Ids without `trace.` are those of OpenEnv's RFC 008, environment auto-validation."""

MAX_FLOOR = 0.10
"""The most that an agent who does nothing may earn on average."""
MIN_FLOOR_GAP = 0.50
MIN_ATTACK_MARGIN = 0.25
"""By how much every attacker must stay below the oracle's mean reward."""
MAX_ATTACK_SUCCESS = 0.60
"""Share of seeds on which an attacker may succeed: half is what guessing one of two conditions gives."""
MIN_DISTINCT = 0.95
"""Share of different first messages among the seeds."""
MIN_STRUCTURES = 0.10
"""Share of different first messages when everything that holds a digit is masked."""
MAX_SECONDS_RESET = 0.25
MAX_SECONDS_STEP = 0.05
MIN_SIGNAL = 0.20
