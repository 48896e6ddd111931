"""What a stage says of the rewards that it used: how many were recomputed, and that they agree."""

from __future__ import annotations

from trace_assets.sandbox.reward_verification import Recomputed, RewardMismatch
from trace_assets.stages.result import StageCheck

CHECK = "rewards_recomputed"


def recomputed_figures(found: Recomputed) -> dict[str, float | int]:
    """Return the figures of an asset whose rewards were sampled."""
    return {
        "episodes": found.episodes,
        "recomputed": found.recomputed,
        "recomputed_share": round(found.share, 4),
    }


def recomputed_check(found: Recomputed | RewardMismatch) -> StageCheck:
    """Return the check `rewards_recomputed`: a mismatch fails it, without a sample it was not run."""
    if isinstance(found, RewardMismatch):
        return StageCheck(CHECK, False, str(found))
    if not found.episodes:
        return StageCheck(CHECK, None, "no episode was played, or sandbox.recompute_share is 0")
    if not found.recomputed:
        return StageCheck(CHECK, None, f"{found.unconfirmed} episodes found no sandbox to be played in again")
    lost = f"; {found.unconfirmed} could not be, for want of a sandbox" if found.unconfirmed else ""
    more = f", and {found.later} of them once more at the end" if found.later else ""
    more += f", {found.recalled} of the audit with theirs" if found.recalled else ""
    more += f"; of {found.controls} control episodes no more were paid than may be" if found.controls else ""
    return StageCheck(
        CHECK,
        True,
        f"{found.recomputed:,} of {found.episodes:,} episodes ({found.share:.1%}) were played again in fresh "
        f"sandboxes, all with the same verdict{more}{lost}.",
    )
