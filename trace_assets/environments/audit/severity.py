"""The audit's severity policy: how much each check weighs, and what it demands.

Versioned: whoever changes a weight or a threshold gives it a new version, which every finding names.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_assets.errors import InputError

Severity = Literal["error", "warning", "info"]

SEVERITIES: dict[str, Severity] = {
    "trace.size": "error",
    "trace.parses": "error",
    "trace.declares_functions": "error",
    "trace.signatures": "error",
    "trace.imports_allowed": "error",
    "trace.dynamic_code": "error",
    "trace.hidden_inputs": "error",
    "runtime.startup": "error",
    "runtime.observation_schema": "error",
    "runtime.reward_well_formed": "error",
    "trace.oracle_ends": "error",
    "trace.latency": "warning",
    "runtime.seed_control": "error",
    "runtime.episode_determinism": "error",
    "runtime.episode_isolation": "error",
    "trace.hidden_conditions": "error",
    "trace.seed_diversity": "error",
    "trace.structure_diversity": "error",
    "runtime.tool_declaration_accuracy": "error",
    "trace.fidelity.schema": "error",
    "semantic.verifier_determinism": "error",
    "semantic.oracle_max": "error",
    "semantic.floor_gap": "error",
    "trace.partial_credit": "error",
    "trace.balance": "error",
    "semantic.no_solution_leakage": "error",
    "trace.purpose.tools": "error",
    "trace.purpose.looked_up": "error",
    "trace.purpose.values": "error",
    "trace.purpose.rule": "error",
    "trace.purpose.policy": "error",
    "trace.purpose.sentences": "warning",
    "trace.purpose.labelled_runs": "error",
    "trace.purpose.idle_looks": "error",
    "trace.unshown_names": "error",
    "trace.told.opening": "error",
    "trace.told.results": "error",
    "trace.told.errors": "error",
    "trace.attacker.always_refuse": "error",
    "trace.attacker.always_transfer": "error",
    "trace.attacker.echo": "error",
    "trace.attacker.closing_only": "error",
    "trace.attacker.forged_reply": "error",
    "trace.attacker.begging": "error",
    "trace.attacker.random_legal": "error",
    "trace.attacker.repeat_first": "error",
    "trace.attacker.spam_all": "error",
    "trace.attacker.other_seed": "error",
    "trace.attacker.act_unseen": "error",
    "trace.attacker.stop_early": "error",
    "trace.attacker.overact": "error",
    "trace.attacker.stall": "error",
    "trace.attacker.hostile_values": "error",
    "trace.attacker.extremes": "error",
    "trace.attacker.provoke": "error",
    "trace.attacker.hidden_tools": "error",
    "trace.attacker.grep": "error",
    "trace.attacker.same_tool": "error",
    "trace.attacker.stranger": "error",
    "trace.attacker.late_looks": "error",
    "trace.attacker.looks_elsewhere": "error",
    "trace.attacker.claimed_looks": "error",
    "trace.attacker.tries": "error",
    "trace.attacker.takes_back": "error",
    "trace.attacker.all_answers": "error",
    "trace.mutation.kill_rate": "error",
    "trace.mutation.harmless": "error",
    "trace.mutation.reworded": "error",
    "trace.fidelity.added_fields": "error",
    "trace.fidelity.result_shape": "error",
    "trace.fidelity.error_shape": "error",
    "trace.fidelity.tool_ngrams": "warning",
    "trace.fidelity.lengths": "warning",
    "trace.fidelity.auc": "warning",
    "trace.pass_band": "error",
    "trace.dead_groups": "error",
    "trace.predicted_signal": "warning",
    "trace.judge.oracle": "error",
    "trace.judge.untold": "error",
    "trace.judge.lacking": "error",
    "trace.judge.reworded": "error",
    "trace.judge.partly": "error",
    "trace.judge.coherent": "error",
    "trace.judge.told_with": "error",
    "trace.judge.told_without": "error",
}
"""Check id -> severity. Ids without `trace.` are those of OpenEnv's RFC 008, environment auto-validation."""


class Rules(BaseModel):
    """A severity policy. Only a failed `error` rejects an environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    version: str
    severities: dict[str, Severity]
    max_floor: float = Field(0.10, ge=0, le=1)
    """The most that an agent who does nothing may earn on average."""
    min_floor_gap: float = Field(0.50, ge=0, le=1)
    """By how much the oracle must stand above it."""
    min_attack_margin: float = Field(0.25, ge=0, le=1)
    """By how much every attacker must stay below the oracle's mean reward."""
    max_attack_success: float = Field(0.60, ge=0, le=1)
    """Share of seeds on which an attacker may succeed: half is what guessing one of two conditions gives."""
    min_distinct: float = Field(0.95, ge=0, le=1)
    """Share of different first messages among the seeds."""
    min_structures: float = Field(0.10, ge=0, le=1)
    """Share of different first messages when everything that holds a digit is masked."""
    max_same_plan: float = Field(0.90, ge=0, le=1)
    """Share of seeds that one plan (the oracle's calls without their values) may take."""
    max_same_kind: float = Field(0.75, ge=0, le=1)
    """Share of seeds that may end with the same change, where there are several kinds."""
    max_told_p: float = Field(0.002, ge=0, le=1)
    """What tells the decision beside a look: chance of as much by accident, below which it is a leak."""
    min_run_gap: float = Field(0.0, ge=-1, le=1)
    """By how much what runs labelled PRESENT decide must be paid more than what LACKING ones do."""
    max_run_p: float = Field(0.01, ge=0, le=1)
    """Chance of as large a difference between labelled runs by accident: above it none is seen."""
    min_mutant_loss: float = Field(0.05, ge=0, le=1)
    """What a harmful mutant of the oracle's script must lose at least, beside its success."""
    min_kill_rate: float = Field(0.95, ge=0, le=1)
    """Share of harmful mutants that must lose."""
    min_spared_rate: float = Field(0.95, ge=0, le=1)
    """Share of harmless mutants that must keep the whole reward."""
    min_operator_rate: float = Field(0.75, ge=0, le=1)
    """The same for each mutation operator alone."""
    max_result_distance: float = Field(0.05, ge=0, le=1)
    """Share of places in tool results that the target's results do not have so."""
    max_error_distance: float = Field(0.10, ge=0, le=1)
    """Share of errors whose form the target's errors do not have."""
    max_ngram_divergence: float = Field(0.50, ge=0, le=1)
    """Jensen-Shannon divergence of neighbouring calls between the oracle and real successes, in bits."""
    max_lengths_outside: float = Field(0.40, ge=0, le=1)
    """Share of lengths whose median lies outside of what 80 % of real successes have."""
    max_auc: float = Field(0.95, ge=0, le=1)
    """Area under the ROC curve of a classifier of real against generated episodes: its lower bound."""
    max_seconds_reset: float = Field(0.25, gt=0)
    """Median wall seconds of a reset."""
    max_seconds_step: float = Field(0.05, gt=0)
    """Median wall seconds of a step."""
    max_seconds_audit: float = Field(900.0, gt=0)
    """Wall seconds that the environment may keep one audit waiting in all."""
    min_signal: float = Field(0.20, ge=0, le=1)
    """Share of groups of rollouts that must hold both a success and a failure."""
    max_lacking: float = Field(0.80, ge=0, le=1)
    """Share of episodes in which an agent may be paid that a model has do without the capability."""


RULES = Rules(version="9", severities=SEVERITIES)
"""The policy of this version."""


def load_rules(path: Path) -> Rules:
    """Read a policy of one's own: a TOML file with the values that differ from `RULES`.

    Thresholds stand at the top, severities in a table `[severities]` by check id. Its version is this
    version's, a plus sign and a hash of the file's values, so that findings tell by what they were judged.

    Raises:
        InputError: The file cannot be read, or names a check or threshold that there is not.
    """
    try:
        own = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the policy {path} cannot be read as TOML ({error}); mend the file.") from error
    own.pop("version", None)
    severities = own.get("severities", {})
    unknown = sorted(set(severities) - set(RULES.severities)) if isinstance(severities, dict) else []
    if unknown:
        raise InputError(f"the policy {path} weighs '{unknown[0]}', which is no check; see docs/audit.md.")
    if isinstance(severities, dict):
        own = {**own, "severities": {**RULES.severities, **severities}}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True, default=str).encode()).hexdigest()[:8]
    try:
        return Rules.model_validate(
            {**RULES.model_dump(exclude={"version"}), **own, "version": f"{RULES.version}+{digest}"}
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"the policy {path} is not usable at '{place}': {first['msg']}.") from error
