"""What the method's paper claims, each claim beside what this study says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trace_assets.tournament.score import Score, Shown

Standing = Literal["supported", "contradicted", "undecided", "not tested"]
PAPER = "arXiv 2604.05336"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        says: It, with ours in mind: one adapter a capability, and a router.
        rival: The arm that it is about, or how the names of such arms begin; empty where no comparison of
            two arms could show it.
        untested: Why nothing is said of it where no plan can name the comparison.
    """

    says: str
    rival: str
    untested: str = ""


@dataclass(frozen=True)
class Stands:
    """A claim as it stands after a study.

    Attributes:
        claim: Which.
        standing: One of the four.
        shown: The comparison behind it; None where there is none.
        because: What is to be known of it; empty where the comparison says it all.
    """

    claim: Claim
    standing: Standing
    shown: Shown | None
    because: str = ""


CLAIMS = (
    Claim("better than the base model", "base"),
    Claim("better than GRPO on the target's own tasks", "mixed_grpo"),
    Claim("better than one adapter for all capabilities", "joint"),
    Claim("better than merged adapters", "merged:"),
    Claim("better than prompt optimisation (GEPA)", "gepa_"),
    Claim("better than generic environments", "generic_"),
    Claim("gains more than GRPO on the target from more rollouts", "", "a study has one budget"),
    Claim("gains from more capabilities", "", "a study teaches all that it keeps"),
)
"""As the paper makes them; those about merged adapters, GEPA and generic
environments hold where they do for each such arm."""

OF_VERDICT: dict[str, Standing] = {
    "better": "supported",
    "worse": "contradicted",
    "tied": "contradicted",
    "undecided": "undecided",
}


def standings(scored: Score) -> list[Stands]:
    """Say of each claim how it stands: by the primary comparisons, for only these have a verdict."""
    return [_stands(claim, scored) for claim in CLAIMS]


def _stands(claim: Claim, scored: Score) -> Stands:
    if not claim.rival:
        return Stands(claim, "not tested", None, claim.untested)
    ours = scored.plan.primary[0].arm
    primary = [one for one in scored.primary if _is_about(claim, one, ours)]
    if primary:
        # Of several the one that speaks most against it.
        order = ("worse", "tied", "undecided", "better")
        worst = min(primary, key=lambda one: order.index(one.verdict or "undecided"))
        if worst.found.mean is None:
            return Stands(claim, "not tested", None, f"`{worst.comparison.name}` was played in no world")
        return Stands(claim, OF_VERDICT[worst.verdict or "undecided"], worst)
    looked = next((one for one in scored.secondary if _is_about(claim, one, ours)), None)
    if looked is not None and looked.found.mean is not None:
        return Stands(claim, "not tested", looked, "a secondary comparison, without a verdict")
    return Stands(claim, "not tested", None, "the plan does not compare it")


def _is_about(claim: Claim, one: Shown, ours: str) -> bool:
    rival = one.comparison.rival
    of_many = claim.rival.endswith((":", "_"))
    named = rival.startswith(claim.rival) if of_many else rival == claim.rival
    return named and one.comparison.arm == ours
