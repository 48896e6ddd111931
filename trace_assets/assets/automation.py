"""What the Dagster daemon makes by itself: the light layers, and the heavy ones when they are switched on."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from trace_assets.settings import Automation

AC = dg.AutomationCondition

_DUE = (
    (AC.newly_missing() | AC.code_version_changed() | AC.any_deps_match(AC.data_version_changed()))
    .since((AC.newly_requested() | AC.newly_updated()).with_label("handled"))
    .with_label("is_due")
)
_READY = _DUE & AC.all_deps_match(~AC.missing()).with_label("inputs_are_there")


def condition(heavy: dg.AssetSelection) -> dg.AutomationCondition[dg.AssetKey]:
    """Return when an asset is made: it is missing, has new code or settings, or an input has new content.

    Four points differ from the stock `AutomationCondition.eager()`, which launches a fan-in several times:

    - an input that was made again with equal content is no reason;
    - nothing is requested while one of its inputs is being made or is itself due, so a fan-in over batches
      runs once, when the last of them is done. (`will_be_requested` does not see this: it is never true
      between assets of different partitions.) What hangs on labels also waits for the firewall before them,
      from which it cannot yet be seen whether labels will be due. Looking further everywhere is exact too,
      and three times as slow.
    - one batch that is missing (refused, or waiting for a GPU) does not keep the others from their fan-in:
      of every input, something must be there;
    - what is missing when the daemon looks for the first time is made as well.

    Args:
        heavy: Assets that may be due for days before somebody makes them: nothing waits for these.
    """
    coming = AC.any_deps_match(_READY).ignore(heavy) | AC.any_deps_match(AC.in_progress())
    firewall = dg.AssetSelection.assets("batch_capabilities")
    behind = AC.any_deps_match(AC.any_deps_match(_READY | AC.in_progress()).allow(firewall))
    at_rest = (~(coming | behind)).with_label("inputs_are_at_rest")
    return (_READY & at_rest & ~AC.in_progress()).with_label("content_of_an_input_changed")


ALSO = {"target_contract": AC.asset_matches("base_model", ~AC.missing())}
"""What single assets wait for beside their inputs: the contract is read from rollouts of the live target, of
which there are none where all trajectories were ingested."""


def is_heavy(asset: dg.AssetsDefinition) -> bool:
    """Tell whether an asset takes the accelerator or minutes of training: it is in a pool, or runs torch."""
    specs = list(asset.specs)
    pooled = any(getattr(asset.op, "pool", None) for _ in specs)
    return pooled or any("pytorch" in spec.kinds for spec in specs)


def with_automation(assets: Sequence[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """Return the assets with their condition; `automation_sensors` says which of them are looked at."""
    when = condition(dg.AssetSelection.assets(*(asset for asset in assets if is_heavy(asset))))

    def automated(spec: dg.AssetSpec) -> dg.AssetSpec:
        also = ALSO.get(spec.key.to_user_string())
        return spec.replace_attributes(automation_condition=when & also if also else when)

    return [asset.map_asset_specs(automated) for asset in assets]


def automation_sensors(
    assets: Sequence[dg.AssetsDefinition], section: Automation
) -> list[dg.AutomationConditionSensorDefinition]:
    """Return one sensor for the light layers, running, and one for the heavy ones, stopped by default."""
    running, stopped = dg.DefaultSensorStatus.RUNNING, dg.DefaultSensorStatus.STOPPED
    return [
        dg.AutomationConditionSensorDefinition(
            name="light_layers",
            target=dg.AssetSelection.assets(*(asset for asset in assets if not is_heavy(asset))),
            default_status=running,
            minimum_interval_seconds=section.interval_seconds,
            run_tags={"trace/by": "light_layers"},
            description="Makes what is due and needs no GPU: settings, tasks, diagnosis, environments, the "
            "report. An edit of trace.toml is seen when the code location is reloaded.",
        ),
        dg.AutomationConditionSensorDefinition(
            name="heavy_layers",
            target=dg.AssetSelection.assets(*(asset for asset in assets if is_heavy(asset))),
            default_status=running if section.gpu else stopped,
            minimum_interval_seconds=section.interval_seconds,
            run_tags={"trace/by": "heavy_layers"},
            description="Makes what is due and takes a GPU or minutes: rollouts, audits, training, routing, "
            "evaluation. Stopped unless [automation] gpu = true; `trace sync` makes the same when you ask.",
        ),
    ]
