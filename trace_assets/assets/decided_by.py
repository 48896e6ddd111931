"""Which code decides an asset's content: the asset is due when that code changes, and not before.

What only shows a result (pages, figures) is left out, and so is what only moves data about. Assets that are
cheap name the whole stage; those that take an accelerator or money name what their numbers rest on.
"""

from __future__ import annotations

from collections.abc import Mapping

_PLAYED = ("policies", "rollout.episode", "rollout.runner")
_SEEN = tuple(
    f"diagnosis.detectors.{name}" for name in ("identity", "mutation", "transcript", "values", "wording")
)
_LEARNED = tuple(
    f"training.{name}"
    for name in (
        *("adapter", "curve", "divided_trainer", "episodes", "grpo", "peers", "plan", "redraw", "run"),
        *("sampler", "server_sampler", "shards", "trainer", "uploads", "validation"),
    )
)
_SEEDED = ("targets.sandboxed", "targets.seed_permutation", "targets.seeds")

DECIDED_BY: Mapping[str, tuple[str, ...]] = {
    "tasks": ("stages.tasks", "targets"),
    "base_model": (
        *_PLAYED,
        "targets.embedded",
        *(f"training.{name}" for name in ("base_check", "base_model", "base_run", "corpus", "muon")),
        *(f"training.{name}" for name in ("named_model", "tiny_agent", "tokenizer")),
    ),
    "trajectories": (*_PLAYED, "targets"),
    "triage": (
        *("diagnosis.faults", "diagnosis.triage", "stages.trajectories", "diagnosis/model/prompts/triage.md"),
        *("diagnosis.model.redaction", "diagnosis.model.triage", "diagnosis.model.view"),
        *("diagnosis.expected", "diagnosis.tool_use", *_SEEN),
    ),
    "suspect_tasks": ("diagnosis.expected", "stages.suspect_tasks", *_SEEN),
    "batch_capabilities": ("stages.batch_capabilities",),
    "label_leak": (
        *("diagnosis.leak", "diagnosis.model.redaction", "stages.leak", "statistics.bootstrap"),
        "statistics.ranking",
    ),
    "contrast": (
        *(f"diagnosis.{name}" for name in ("agreement", "consensus", "contrast", "halves", "label_matrix")),
        "stages.diagnosis",
        "stages.evidence",
        "statistics",
    ),
    "policy_contrast": ("diagnosis.policy_contrast", "stages.policy_contrast", "statistics"),
    "stability": ("diagnosis", "stages.evidence", "stages.stability", "statistics"),
    "selected_capabilities": (
        "diagnosis.consensus",
        "diagnosis.cover",
        "diagnosis.halves",
        "diagnosis.label_matrix",
        "diagnosis.selection",
        "stages.diagnosis",
        "stages.evidence",
        "statistics",
    ),
    "drift": (
        "diagnosis.contrast",
        "diagnosis.drift",
        "diagnosis.halves",
        "diagnosis.label_matrix",
        "stages.drift",
        "stages.evidence",
        "statistics",
    ),
    "capability_spec": ("stages.diagnosis",),
    "environment_verdict": ("stages.curriculum", "synthesis.audit.severity"),
    "pilot": (
        *(*_PLAYED, *_LEARNED, *_SEEDED, "targets.embedded", "training.pilot"),
        *("diagnosis.detectors", "stages.pilot", "statistics.transfer", "synthesis.learnability.rule"),
    ),
    "learnability": (
        *("stages.learnability", "statistics.beta_binomial", "synthesis.learnability.dead_groups"),
        "training.curve",
    ),
    "curriculum": ("stages.curriculum",),
    "adapter": (*_PLAYED, *_LEARNED, *_SEEDED),
    "mixed_adapter": (*_PLAYED, *_LEARNED, "targets.embedded"),
    "routing_trials": ("routing.trials",),
    "routing": ("routing", "stages.routing"),
    "adapter_validation": (*_PLAYED, "evaluation", "statistics"),
    "evaluation": (*_PLAYED, "evaluation", "routing.regret", "statistics", "training.merging"),
    "report": ("report", "stages.report"),
}
"""Asset to modules, packages and files below `trace_assets`."""
