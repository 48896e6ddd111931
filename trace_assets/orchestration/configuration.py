"""One asset a section of `trace.toml`: an edit is a new code version of that node alone."""

import time

import dagster as dg

from trace_assets.orchestration.dagster_asset import DIAGNOSIS_SECTIONS, OWNERS
from trace_assets.orchestration.pages import small_table
from trace_assets.settings import SECTIONS, Section
from trace_assets.study import Study

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
    fingerprint = section.fingerprint()

    def compute() -> dg.MaterializeResult[None]:
        started = time.monotonic()
        rows = section_rows(section)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(fingerprint),
            metadata={
                "settings": small_table(rows),
                "seconds": round(time.monotonic() - started, 3),
                "cost_usd": 0.0,
                "dagster/row_count": len(rows),
            },
        )

    return dg.asset(
        key=dg.AssetKey(["config", name]),
        description=f"Section [{name}] of trace.toml. {(type(section).__doc__ or '').splitlines()[0]}",
        group_name="config",
        kinds={"toml"},
        owners=OWNERS,
        tags={"layer": "cpu", "door": "diagnosis" if name in DIAGNOSIS_SECTIONS else "loop"},
        metadata={"dagster/column_schema": COLUMNS},
        code_version=fingerprint,
    )(compute)


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
