"""The asset `interference`: which capabilities would undo each other, before any is trained."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.environment_verdict import taught
from trace_assets.errors import require_extra
from trace_assets.records import Capability, Interference, InterferencePart
from trace_assets.report.asset_report.composition import interference_report
from trace_assets.report.data import shown_names
from trace_assets.resources.contract import training_obstacle
from trace_assets.resources.policy import base_folder
from trace_assets.resources.sandbox import read_environment, training_target
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.training.interference import measure, opposed_pairs, pairs_of, parts_of, unbranched


@asset(
    "interference",
    group="training",
    records=(Interference, InterferencePart),
    deps=["curriculum", "environment", "base_model", "config/training"],
    checks={
        "capabilities_compatible": "No two capabilities' policy gradients are opposed: their adapters may "
        "act together.",
        "conditions_told_apart": "The base policy tells the conditions of each environment apart.",
    },
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def write_interference(study: Study) -> StageResult:
    """The capabilities' policy gradients at the base policy, by condition: who would undo whom.

    Orthogonal ones can be added up; opposed ones are never composed, but routed or taught in one environment.
    """
    names = sorted(taught(study))
    why = _why_not(study, names)
    if why:
        version = _write(study, [], [])
        return StageResult(version, 0, checks=(StageCheck("capabilities_compatible", None, why, "warning"),))
    require_extra("torch", "train", "comparing policy gradients")
    with ExitStack() as stack:
        environments = {
            name: stack.enter_context(training_target(study, read_environment(study, name))) for name in names
        }
        measured = measure(environments, base_folder(study), study.settings.training)
    seed = study.settings.training.seed
    parts, pairs = parts_of(measured, seed), pairs_of(measured, seed=seed)
    verdicts = [row for row in pairs if not row.condition]
    opposed, flat = opposed_pairs(pairs), unbranched(pairs)
    shown = shown_names(study.store.read(Capability), [])
    asset_report = interference_report(pairs, parts, shown)
    return StageResult(
        _write(study, pairs, parts),
        len(verdicts),
        {
            "capabilities": len(names),
            "opposed": len(opposed),
            "n": sum(row.n_rollouts for row in parts),
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(
            StageCheck("capabilities_compatible", not opposed, _said(verdicts, shown), "warning"),
            StageCheck("conditions_told_apart", not flat, _told_apart(flat, shown), "warning"),
        ),
        spent={("rollouts", "episodes"): float(sum(row.n_rollouts for row in parts))},
    )


def _why_not(study: Study, names: list[str]) -> str:
    if not study.settings.training.interference:
        return "training.interference is off."
    if len(names) < 2:
        return f"{len(names)} of two capabilities or more is taught, so there is nothing to compare."
    for name in names:
        if obstacle := training_obstacle(study, read_environment(study, name).target):
            return f"{obstacle}."
    return ""


def _said(verdicts: list[Interference], names: Mapping[str, str]) -> str:
    order = {"opposed": 0, "unclear": 1, "aligned": 2, "orthogonal": 3}
    return " ".join(
        f"{names.get(row.capability_id, row.capability_id)} and {names.get(row.other_id, row.other_id)}: "
        f"{row.reason}"
        for row in sorted(verdicts, key=lambda row: order[row.verdict])
    )


def _told_apart(flat: list[Interference], names: Mapping[str, str]) -> str:
    if not flat:
        return "no environment has two conditions whose gradients undo each other."
    return " ".join(
        f"{names.get(row.capability_id, row.capability_id)}: a step for '{row.condition}' undoes one for "
        f"'{row.other_condition}' (cosine {row.cosine:.2f}): the base policy does not tell them apart, so no "
        "budget teaches it; show it right solutions of both first."
        for row in flat
    )


def _write(study: Study, pairs: list[Interference], parts: list[InterferencePart]) -> str:
    return text_version(study.store.write(pairs, Interference), study.store.write(parts, InterferencePart))


def opposed(study: Study) -> dict[frozenset[str], str]:
    """Return every two capabilities whose adapters must not act together, and why."""
    return opposed_pairs(study.store.read(Interference))
