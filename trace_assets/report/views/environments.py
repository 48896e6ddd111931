"""The section on the audits: every finding by level, attackers' rewards and the kill rate at a glance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from trace_assets.evaluation.arms import arm_of
from trace_assets.records import Adapter, Environment, EnvironmentCheck, Pilot, TrainingPoint
from trace_assets.report import formatting
from trace_assets.report.data import ReportData
from trace_assets.report.plots import Dot, Sampled, curve, interval_dots
from trace_assets.stats.intervals import wilson

LEVELS = {
    "static": "Before it runs",
    "runtime": "Running",
    "semantic": "What the reward means",
    "mutation": "Mutants of the oracle",
    "adversarial": "Attackers",
    "fidelity": "Likeness to the target",
    "statistical": "What the base policy can learn",
    "judged": "What a model says of it",
}
"""Level to heading, in the order of the page."""
ATTACKER = "trace.attacker."
_TONES = {"pass": "good", "skip": "dim"}


def audit_view(data: ReportData) -> list[dict[str, Any]]:
    """Return the audited environments with their findings."""
    shown = []
    for environment in data.environments:
        checks = [row for row in data.checks if row.environment_id == environment.environment_id]
        if checks:
            shown.append(_audited(data, environment, checks))
    return shown


def _audited(
    data: ReportData, environment: Environment, checks: Sequence[EnvironmentCheck]
) -> dict[str, Any]:
    rejected = any(row.status == "fail" and row.severity == "error" for row in checks)
    counts = {status: sum(row.status == status for row in checks) for status in ("pass", "fail", "skip")}
    return {
        "anchor": f"audit-{environment.environment_id}",
        "name": data.names.get(environment.capability_id, environment.capability_id),
        "verdict": "rejected" if rejected else "accepted",
        "tone": "bad" if rejected else "good",
        "open": rejected,
        "counts": f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped",
        "policy": ", ".join(sorted({row.policy_version for row in checks if row.policy_version})),
        "isolation": ", ".join(sorted({row.isolation_level for row in checks if row.isolation_level})),
        "kill": kill_rate(checks),
        "worst": strongest(checks),
        "groups": [
            {"heading": heading, "rows": [_row(row) for row in _ordered(checks, level)], "level": level}
            for level, heading in LEVELS.items()
            if any(row.level == level for row in checks)
        ],
    }


def _ordered(checks: Sequence[EnvironmentCheck], level: str) -> list[EnvironmentCheck]:
    """Return a level's findings: failed ones first, then attackers by what they earned, then by id."""
    order = {"fail": 0, "pass": 1, "skip": 2}
    own = [row for row in checks if row.level == level]
    return sorted(
        own,
        key=lambda row: (
            order[row.status],
            -(row.value or 0.0) if row.check_id.startswith(ATTACKER) else 0.0,
            row.check_id,
        ),
    )


def _row(row: EnvironmentCheck) -> dict[str, Any]:
    attacker = row.check_id.startswith(ATTACKER)
    return {
        "id": row.check_id,
        "status": row.status,
        "severity": "" if row.status == "pass" or row.severity == "error" else row.severity,
        "tone": _TONES.get(row.status, "bad" if row.severity == "error" else "warn"),
        "value": value_text(row),
        "interval": interval_text(row),
        "bar": round(100 * row.value) if attacker and row.value is not None else None,
        "n": formatting.NONE if row.n is None else f"{row.n:,}",
        "bound": row.bound,
        "evidence": row.seen,
    }


def value_text(row: EnvironmentCheck) -> str:
    """Return a finding's value, as short as it can be told."""
    if row.value is None:
        return formatting.NONE
    return f"{row.value:.3g}" if abs(row.value) < 1000 else f"{row.value:,.0f}"


def interval_text(row: EnvironmentCheck) -> str:
    """Return the interval of a finding's value, empty where it has none."""
    return "" if row.low is None or row.high is None else f"[{row.low:.2f}, {row.high:.2f}]"


def kill_rate(checks: Sequence[EnvironmentCheck]) -> str:
    """Return the share of harmful mutants that lost reward, in words; a skip says why there is none."""
    row = next((row for row in checks if row.check_id == "trace.mutation.kill_rate"), None)
    if row is None:
        return "not measured"
    if row.value is None:
        return f"not measured: {row.evidence}"
    return f"{100 * row.value:.1f} % {interval_text(row)} of {formatting.count(row.n or 0, 'harmful mutant')}"


def strongest(checks: Sequence[EnvironmentCheck]) -> str:
    """Return the attacker that earned most, in words."""
    played = [row for row in checks if row.check_id.startswith(ATTACKER) and row.value is not None]
    if not played:
        return "none was played"
    most = max(played, key=lambda row: (row.value or 0.0, row.check_id))
    name = most.check_id.removeprefix(ATTACKER)
    of = formatting.count(len(played), "attacker")
    return f"{name} with {value_text(most)} {interval_text(most)}, of {of}"


# The section on environments, adapters and learning curves.


_HARM = {"harmless": "good", "unclear": "warn", "harmful": "bad"}


def teaching_view(data: ReportData) -> dict[str, Any]:
    """Return environments with their audits, adapters with their rates, and curves."""
    harm = {row.adapter: row for row in data.harm}
    return {
        "environments": [_environment(data, row) for row in data.environments],
        "adapters": [
            {
                "a": row,
                "name": _name(data, row.name),
                "harm": harm.get(row.name),
                "tone": _HARM[harm[row.name].verdict] if row.name in harm else "",
            }
            for row in data.adapters
        ],
        "worth": [_worth(data, row) for row in data.pilots],
        "plot": Markup(adapters_plot(data.adapters, data.names)),
        "curves": [
            {
                "svg": Markup(curve_plot(points, _name(data, name))),
                "caption": f"Line: success of {max(point.n for point in points)} training rollouts an "
                "iteration, with 95 % interval as if they were independent. Points: held-out seeds.",
            }
            for name, points in curves_by_name(data.curves).items()
        ],
    }


def curve_plot(points: Sequence[TrainingPoint], name: str) -> str:
    """Return one adapter's learning curve as an SVG."""
    samples, markers = [], []
    for point in sorted(points, key=lambda point: point.iteration):
        if point.n:
            low, high = wilson(round(point.success_rate * point.n), point.n)
            samples.append(Sampled(point.iteration, point.success_rate, low, high))
        if point.validation_rate is not None and point.validation_n:
            low, high = wilson(round(point.validation_rate * point.validation_n), point.validation_n)
            markers.append(Sampled(point.iteration, point.validation_rate, low, high))
    return curve(
        samples, title=f"Learning curve of {name}", x_label="iteration", markers=markers, heading=name
    )


def adapters_plot(adapters: Sequence[Adapter], names: dict[str, str]) -> str:
    """Return success before and after training of each adapter as an SVG."""
    dots = []
    for row in adapters:
        name = names.get(row.name, formatting.arm_name(arm_of(row.name)))
        for when, value, low, high in (
            ("before", row.validation_before, row.validation_before_low, row.validation_before_high),
            ("after", row.validation_after, row.validation_after_low, row.validation_after_high),
        ):
            dots.append(
                Dot(
                    label=name if when == "before" else "after training",
                    value=value,
                    low=low,
                    high=high,
                    text=formatting.percent(value, low, high),
                    note=formatting.count(row.validation_n, "episode"),
                    tone="strong" if when == "after" else "",
                )
            )
    return interval_dots(dots, title="Success on held-out seeds before and after training")


def _name(data: ReportData, adapter: str) -> str:
    return data.names.get(adapter, formatting.arm_name(arm_of(adapter)))


def curves_by_name(points: Sequence[TrainingPoint]) -> dict[str, list[TrainingPoint]]:
    """Return the points of each adapter's curve, the mixed adapter's last."""
    grouped: dict[str, list[TrainingPoint]] = defaultdict(list)
    for point in points:
        grouped[point.name].append(point)
    return dict(sorted(grouped.items(), key=lambda item: (item[0] == "mixed", item[0])))


_PILOTS = {"transfers": "good", "undecided": "warn", "stopped": "bad", "not made": "dim"}


def _worth(data: ReportData, row: Pilot) -> dict[str, Any]:
    """Return what a pilot came to, and what was foretold of the run beside what was seen."""
    learnt = next((one for one in data.learnability if one.capability_id == row.capability_id), None)
    return {
        "p": row,
        "l": learnt,
        "name": data.names.get(row.capability_id, row.capability_id),
        "tone": _PILOTS[row.outcome],
    }


def _environment(data: ReportData, row: Environment) -> dict[str, Any]:
    checks = [check for check in data.checks if check.environment_id == row.environment_id]
    failed = [check for check in checks if check.status == "fail"]
    rejected = any(check.severity == "error" for check in failed)
    skipped = sum(check.status == "skip" for check in checks)
    return {
        "name": data.names.get(row.capability_id, row.capability_id),
        "writer": row.writer,
        "n_versions": row.n_versions,
        "short": row.environment_id[:10],
        "verdict": "not audited" if not checks else "rejected" if rejected else "accepted",
        "tone": "dim" if not checks else "bad" if rejected else "good",
        "counts": f"{len(checks) - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped",
        "band": _share(checks, "trace.pass_band", "rollout"),
        "floor": _share(checks, "semantic.floor_gap", "seed"),
        "dead": _share(checks, "trace.dead_groups", "group"),
        "anchor": f"audit-{row.environment_id}" if checks else "",
        "findings": [check for check in checks if check.status != "pass"],
    }


def _share(checks: Sequence[EnvironmentCheck], check_id: str, noun: str) -> Markup:
    found = next((check for check in checks if check.check_id == check_id and check.value is not None), None)
    if found is None or found.value is None:
        return Markup(formatting.NONE)
    n = formatting.count(found.n, noun) if found.n else ""
    return Markup("{}<small>{}</small><small>{}</small>").format(
        f"{100 * found.value:.1f} %", n, interval_text(found)
    )
