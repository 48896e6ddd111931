"""The attack battery as a check of `config/sandbox`: read from the table, or reported when it was played."""

from typing import Any

import dagster as dg

from trace_assets.assets.result import StageCheck
from trace_assets.orchestration.pages import small_table
from trace_assets.records import EnvironmentCheck, SandboxCheck
from trace_assets.study import Study
from trace_assets.untrusted.printable import plain
from trace_assets.workflows.sandbox_selftest import CHECK, Present, judge_battery, present_sandbox

ASSET = dg.AssetKey(["config", "sandbox"])


@dg.asset_check(
    asset=ASSET,
    name=CHECK,
    description="The sandbox in use was attacked on this machine by `trace doctor --sandbox` and held; a "
    "result of another sandbox counts for nothing.",
    required_resource_keys={"study"},
)
def sandbox_battery(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    """Judge what is stored; nothing is attacked."""
    study: Study = context.resources.study
    judged, metadata = judge(study, present_sandbox(study))
    return dg.AssetCheckResult(
        passed=bool(judged.passed),
        description=plain(_words(judged)),
        severity=_severity(judged),
        metadata=metadata,
    )


def judge(study: Study, present: Present) -> tuple[StageCheck, dict[str, Any]]:
    """Return the check as it stands for a sandbox, and what its page shows."""
    rows = study.store.read(SandboxCheck)
    judged = judge_battery(rows, present)
    wrong = [row for row in rows if row.status == "fail"]
    metadata: dict[str, Any] = {"sandbox version in use": present.version or "none"}
    if rows:
        latest = max(rows, key=lambda row: row.checked_at)
        metadata |= {
            "attacked version": latest.sandbox_version,
            "isolation_level": latest.isolation_level,
            "attacks": len(rows),
            "held": sum(row.status == "pass" for row in rows),
            "played at": latest.checked_at.isoformat(timespec="seconds"),
        }
    if wrong:
        columns = ("attack", "isolation_level", "expected", "outcome", "detail")
        metadata["not held"] = small_table([{name: getattr(row, name) for name in columns} for row in wrong])
    return judged, metadata


def report_battery(instance: dg.DagsterInstance, study: Study, present: Present) -> StageCheck:
    """Record the check's present state in Dagster's history, outside any run."""
    judged, metadata = judge(study, present)
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=ASSET,
            check_name=CHECK,
            passed=bool(judged.passed),
            severity=_severity(judged),
            description=plain(_words(judged)),
            metadata=metadata,
        )
    )
    return judged


def report_when_stale(instance: dg.DagsterInstance, study: Study, present: Present) -> bool:
    """Record that the last result is stale, where Dagster still shows it as a pass.

    Returns:
        Whether it did.
    """
    judged = judge_battery(study.store.read(SandboxCheck), present)
    if judged.passed is not None or not present.version:
        return False
    key = dg.AssetCheckKey(ASSET, CHECK)
    last = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
    if last is None or last.event is None or last.event.dagster_event is None:
        return False
    if not last.event.dagster_event.asset_check_evaluation_data.passed:
        return False
    report_battery(instance, study, present)
    return True


def tell_when_stale(instance: dg.DagsterInstance, study: Study, capability: str) -> None:
    """Look whether the sandbox that has just served an audit is the one that was attacked."""
    for row in study.store.read(EnvironmentCheck, capability)[:1]:
        report_when_stale(instance, study, Present(row.sandbox_version, row.isolation_level))


def _words(judged: StageCheck) -> str:
    return judged.detail if judged.passed is not None else f"not run: {judged.detail}"


def _severity(judged: StageCheck) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if judged.passed is None else dg.AssetCheckSeverity.ERROR
