"""The section on the audits: every finding by level, attackers' rewards and the kill rate at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_assets.records import Environment, EnvironmentCheck
from trace_assets.report import figures
from trace_assets.report.data import ReportData

LEVELS = {
    "static": "Before it runs",
    "runtime": "Running",
    "semantic": "What the reward means",
    "mutation": "Mutants of the oracle",
    "adversarial": "Attackers",
    "fidelity": "Likeness to the target",
    "statistical": "What the base policy can learn",
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
        "n": figures.NONE if row.n is None else f"{row.n:,}",
        "bound": row.bound,
        "evidence": row.seen,
    }


def value_text(row: EnvironmentCheck) -> str:
    """Return a finding's value, as short as it can be told."""
    if row.value is None:
        return figures.NONE
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
    return f"{100 * row.value:.1f} % {interval_text(row)} of {figures.count(row.n or 0, 'harmful mutant')}"


def strongest(checks: Sequence[EnvironmentCheck]) -> str:
    """Return the attacker that earned most, in words."""
    played = [row for row in checks if row.check_id.startswith(ATTACKER) and row.value is not None]
    if not played:
        return "none was played"
    most = max(played, key=lambda row: (row.value or 0.0, row.check_id))
    name = most.check_id.removeprefix(ATTACKER)
    return (
        f"{name} with {value_text(most)} {interval_text(most)}, of {figures.count(len(played), 'attacker')}"
    )
