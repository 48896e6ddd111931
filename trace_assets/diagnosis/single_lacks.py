"""What single failures lack: findings in too few runs to be candidates, against which no success speaks.

A candidate needs several failures that lack it. Many failures have a cause of their own, which a rule may see
all the same; that no success lacks it and several show it is what makes it more than chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.candidates import MIN_NORM, Pool
from trace_assets.diagnosis.detectors import FAMILIES, Proposal
from trace_assets.diagnosis.detectors.protocol import speaks_of_all
from trace_assets.diagnosis.label_matrix import LACKING, PRESENT
from trace_assets.records import Capability, Label, SingleLack

HABITS = frozenset(
    {"write_without_read", "write_against_state", "write_on_kind", "unsupported_argument", "stale_value"}
    | {"unfinished_deed", "situational_step", "customary_step", "listed_unopened", "unanswered_state"}
    | {"skipped_check", "write_without_consent", "unverified_write", "repeated_error", "idle_loop"}
    | {"unrecovered_error"}
    | {"ended_with_work_open", "second_request_left", "unasked_condition", "unseen_answer", "no_answer"}
    | {"write_after_refusal", "empty_turn", "call_in_prose", "denied_without_look", "wrong_figure"}
    | {"unnamed_choice"}
)
"""Families that call wrong what runs mostly do otherwise: several successes must show it. The others hold a
call or a word against what the policy, the request or a result says; that one success shows it is enough."""
NEVER = frozenset({"customary_step"})
"""Families whose lacks are no cause where few runs have them: a step that merely goes with another one."""
MOST = 3
"""Lacks that are kept of one run."""
_PLACE = {family.name: place for place, family in enumerate(FAMILIES)}


def single_lacks(
    pool: Pool,
    passed: NDArray[np.bool_],
    failed: NDArray[np.bool_],
    picked: Collection[int],
    *,
    as_if: bool = False,
) -> Iterator[tuple[int, int, int, tuple[int, int]]]:
    """Yield what failures lack and no success does, candidates left out, where enough show it.

    Args:
        pool: All proposals with their labels.
        passed: Which trajectories passed.
        failed: Which failed.
        picked: Rows that are candidates.
        as_if: Yield of each success what would be yielded if it alone had failed, to count what is said so.

    Yields:
        Column of the failure, number of the lack in it, row, and how many failures lack it and successes
        show it. What the policy says comes before what runs mostly do.
    """
    lacking, present = pool.codes == LACKING, pool.codes == PRESENT
    rows = [
        row
        for row, proposal in enumerate(pool.proposals)
        if row not in set(picked) and _may_be_alone(pool.detectors[row].name, proposal)
    ]
    lacked, spared = lacking[:, failed].sum(axis=1), lacking[:, passed].sum(axis=1)
    shown = present[:, passed].sum(axis=1)
    rows.sort(key=lambda row: (_PLACE[pool.detectors[row].name], -shown[row], row))
    own = int(as_if)
    least = [MIN_NORM if one.name in HABITS else 1 for one in pool.detectors]
    good = [row for row in rows if spared[row] == own and lacked[row] + own and shown[row] >= least[row]]
    for column in np.flatnonzero(passed if as_if else failed).tolist():
        found = [row for row in good if lacking[row, column]]
        for number, row in enumerate(found[:MOST]):
            yield column, number, row, (int(lacked[row]) + own, int(shown[row]))


def _may_be_alone(family: str, proposal: Proposal) -> bool:
    """Tell whether a finding may explain a run that has it alone: not what a look alone was given unsaid."""
    if family in NEVER or speaks_of_all(proposal.args):
        return False
    return family != "unsupported_argument" or bool(proposal.args["tool"])


def as_label(one: SingleLack) -> tuple[Label, Capability]:
    """Return a lack as the label of a capability, as which it would stand if more runs had it."""
    capability = Capability(
        capability_id=one.capability_id,
        target=one.target,
        name=one.name,
        description="",
        analyst="detectors",
        detector=one.detector,
        detector_args=one.detector_args,
    )
    label = Label(
        trajectory_id=one.trajectory_id,
        capability_id=one.capability_id,
        labeller=capability.analyst,
        label="LACKING",
        evidence=one.evidence,
        rationale=one.rationale,
    )
    return label, capability
