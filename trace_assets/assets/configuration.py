"""One asset a section of `trace.toml`: an edit is a new code version of that node alone."""

import json

import dagster as dg

from trace_assets.assets.stage_asset import OWNERS
from trace_assets.settings import SECTIONS
from trace_assets.study import Study


def configuration_assets(study: Study) -> list[dg.AssetsDefinition]:
    """Return the assets `config/<section>` of a study's settings."""
    return [_section_asset(study, name) for name in SECTIONS]


def _section_asset(study: Study, name: str) -> dg.AssetsDefinition:
    section = study.settings.section(name)
    fingerprint = section.fingerprint()

    def compute() -> dg.MaterializeResult[None]:
        values = json.dumps(section.model_dump(mode="json"), indent=2)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(fingerprint),
            metadata={"values": dg.MetadataValue.md(f"```json\n{values}\n```")},
        )

    return dg.asset(
        key=dg.AssetKey(["config", name]),
        description=f"Section [{name}] of trace.toml. {(type(section).__doc__ or '').splitlines()[0]}",
        group_name="config",
        kinds={"toml"},
        owners=OWNERS,
        code_version=fingerprint,
    )(compute)
