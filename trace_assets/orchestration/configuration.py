"""Settings in Dagster: an asset a section of `trace.toml`, the launchpad's form, the sandbox's check."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from trace_assets.assets.asset import StageCheck
from trace_assets.orchestration.pages import small_table
from trace_assets.records import EnvironmentCheck, SandboxCheck
from trace_assets.settings import SECTIONS, Section, Settings
from trace_assets.settings.settings import keys_of
from trace_assets.study import Study
from trace_assets.untrusted.printable import plain
from trace_assets.workflows.sandbox_selftest import CHECK, Present, judge_battery, present_sandbox

OWNERS = ["team:trace-assets"]
DIAGNOSIS_SECTIONS = frozenset(
    {"targets", "rollouts", "discovery", "labels", "contrast", "selection", "stability", "repairs"}
)
"""Sections of the settings that the assets of a diagnosis read."""
COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("setting", "str", description="Name of the setting within its section."),
        dg.TableColumn("value", "str", description="The value in force, as in TOML."),
        dg.TableColumn("meaning", "str", description="What it does."),
    ]
)


def configuration_assets(study: Study) -> list[dg.AssetsDefinition]:
    """Return the assets `config/<section>` of a study's settings."""
    return [_section_asset(study, name) for name in SECTIONS]


def _section_asset(study: Study, name: str) -> dg.AssetsDefinition:
    section = study.settings.section(name)

    def compute() -> dg.MaterializeResult[None]:
        return _written_down(section)

    return dg.asset(
        key=dg.AssetKey(["config", name]),
        description=f"Section [{name}] of trace.toml. {section.sentence()}",
        group_name="config",
        kinds={"toml"},
        owners=OWNERS,
        tags={"layer": "cpu", "door": "diagnosis" if name in DIAGNOSIS_SECTIONS else "loop"},
        metadata={"dagster/column_schema": COLUMNS},
        code_version=section.fingerprint(),
    )(compute)


def _written_down(section: Section, key: dg.AssetKey | None = None) -> dg.MaterializeResult[None]:
    started = time.monotonic()
    rows = section_rows(section)
    return dg.MaterializeResult(
        asset_key=key,
        data_version=dg.DataVersion(section.fingerprint()),
        metadata={
            "settings": small_table(rows),
            "seconds": round(time.monotonic() - started, 3),
            "cost_usd": 0.0,
            "dagster/row_count": len(rows),
        },
    )


def in_one_step(study: Study, sections: Sequence[dg.AssetSpec]) -> dg.AssetsDefinition:
    """Return the assets of all sections as one step, of which a run takes those that it wants.

    For a project whose executor starts a process a step: sixteen would each load the study, to write down a
    few settings.

    Args:
        study: Whose settings they are.
        sections: Of each section's own asset.
    """

    @dg.multi_asset(name="settings", specs=sections, can_subset=True)
    def settings(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
        for key in sorted(context.selected_asset_keys):
            yield _written_down(study.settings.section(key.path[-1]), key)

    return settings


def section_rows(section: Section) -> list[dict[str, str]]:
    """Return a section's settings with the values in force and what they mean."""
    fields = type(section).model_fields
    return [
        {
            "setting": name,
            "value": str(value),
            "meaning": (fields[name].description or "").replace("\n", " "),
        }
        for name, value in section.model_dump(mode="json").items()
    ]


PLAIN = (str, int, float, bool)
"""Types that a launchpad offers as they are; all others (choices, lists, tables) are written as in TOML."""


def settings_config() -> type[dg.Config]:
    """Return the config class of all settings: a section a field, and a key a field of it, each left out."""
    sections: dict[str, Any] = {}
    for name in Settings.model_fields:
        said = Settings().section(name).sentence()
        kind = _section(name)
        sections[name] = (kind, Field(default_factory=kind, description=said))
    made: type[dg.Config] = create_model("SettingsOfTheRun", __base__=dg.Config, **sections)
    made.__doc__ = "Settings for this run alone, over those of trace.toml."
    return made


def _section(section: str) -> type[dg.Config]:
    defaults = getattr(Settings(), section).model_dump(mode="json")
    keys: dict[str, Any] = {}
    for key, field in keys_of(section).items():
        kind = field.annotation if field.annotation in PLAIN else str
        meaning = " ".join((field.description or "").split())
        toml = "" if kind is field.annotation else " Written as in TOML."
        words = f"{meaning} Default: {json.dumps(defaults[key])}; left out: as trace.toml has it.{toml}"
        keys[key] = (kind | None, Field(default=None, description=words.strip()))
    made: type[dg.Config] = create_model(
        f"{section.title().replace('_', '')}OfTheRun", __base__=dg.Config, **keys
    )
    return made


def overrides(chosen: dg.Config) -> list[str]:
    """Return what was chosen as `--set` takes it.

    >>> Chosen = settings_config()
    >>> overrides(Chosen(selection={"min_gap": 0.3}, discovery={"analyst": "both"}))
    ['discovery.analyst=both', 'selection.min_gap=0.3']
    """
    values: Mapping[str, Mapping[str, Any]] = chosen.model_dump()
    return sorted(
        f"{section}.{key}={value if isinstance(value, str) else json.dumps(value)}"
        for section, keys in values.items()
        for key, value in keys.items()
        if value is not None
    )


SANDBOX = dg.AssetKey(["config", "sandbox"])


@dg.asset_check(
    asset=SANDBOX,
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
            asset_key=SANDBOX,
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
    key = dg.AssetCheckKey(SANDBOX, CHECK)
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
