"""How old what a person looks at may be: nothing is promised without a schedule, so nothing alarms then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from trace_assets.cron import pauses
from trace_assets.settings import Schedule

PROMISED = ("contrast", "evaluation", "report")
"""Assets that the schedule keeps up to date."""
GRACE = timedelta(hours=6)
"""How long the work of one tick may take, where ticks are further apart than that."""


def freshness_policy(section: Schedule) -> dg.FreshnessPolicy | None:
    """Return the policy of the promised assets, None without a schedule.

    An asset fails when it was neither made nor confirmed for the longest pause of the schedule and the grace
    of its work. A window is used rather than `FreshnessPolicy.cron`, whose deadlines are the ticks
    themselves: the work of a tick begins there, so it would be late at each that follows a longer pause.
    """
    if not section.cron:
        return None
    _, longest = pauses(section.cron)
    return dg.FreshnessPolicy.time_window(
        fail_window=longest + max(min(GRACE, longest), timedelta(minutes=5))
    )


def with_freshness(assets: Sequence[dg.AssetsDefinition], section: Schedule) -> list[dg.AssetsDefinition]:
    """Return the assets, the promised ones with the schedule's freshness policy."""
    policy = freshness_policy(section)
    if policy is None:
        return list(assets)

    def promised(spec: dg.AssetSpec) -> dg.AssetSpec:
        wanted = spec.key.to_user_string() in PROMISED
        return spec.replace_attributes(freshness_policy=policy) if wanted else spec

    return [asset.map_asset_specs(promised) for asset in assets]
