"""What tasks themselves demand is no mistake: proposals that accuse the very calls of the ground truth.

A ban found in what runs do, or read in a policy, may be a misreading: `refrain from changing a one-way trip`,
where half of the tasks ask for just that. Known without a look at any outcome; ground truths are opened for
proposals only, never for labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_assets.diagnosis.detectors import Detector, Proposal, Transcript
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.lineage import label_with
from trace_assets.diagnosis.detectors.transcript import Step
from trace_assets.diagnosis.detectors.values import flat
from trace_assets.diagnosis.label_matrix import LACKING, Codes
from trace_assets.records import ExpectedAction

DEMANDED = 0.2
"""Share of the runs that lack it whose tasks demand the accused call, above which it is refuted."""
MIN_DEMANDED = 2
"""Tasks that must demand such a call: one ground truth may be wrong."""
_ACCUSING = frozenset({"forbidden_call", "wrong_value"})
"""Kinds of mistakes that lie in a call as it was made."""
Expected = Mapping[str, Sequence[ExpectedAction]]
"""By task id, the calls of the ground truth; tasks without one are missing."""


def demanded(
    found: Sequence[tuple[Detector, Proposal]],
    codes: Codes,
    transcripts: Sequence[Transcript],
    expected: Expected,
) -> list[bool]:
    """Return which proposals accuse calls that tasks demand.

    Args:
        found: Families and their proposals: the rows.
        codes: Their labels, shape `(proposals, transcripts)`.
        transcripts: The columns.
        expected: What tasks demand.
    """
    if not expected:
        return [False] * len(found)
    refuted = []
    for row, (detector, proposal) in enumerate(found):
        known, wanted = 0, list[str]()
        lacking = [one for one, code in zip(transcripts, codes[row], strict=True) if code == LACKING]
        for one in lacking if detector.mistake in _ACCUSING else ():
            if one.task_id in expected:
                known += 1
                if _is_demanded(detector, proposal, one, expected[one.task_id]):
                    wanted.append(one.task_id)
        refuted.append(len(set(wanted)) >= MIN_DEMANDED and len(wanted) > DEMANDED * known)
    return refuted


def _is_demanded(
    detector: Detector, proposal: Proposal, one: Transcript, expected: Sequence[ExpectedAction]
) -> bool:
    """Tell whether the call that shows a lack is one of the expected ones, as far as it is accused."""
    evidence = label_with(detector, one, proposal.args).evidence
    accused = [step for step in one.steps if step.index in evidence and not step.by_user]
    step = accused[-1] if accused else None
    return step is not None and any(
        action.name in (step.tool, step.called) and _alike(action, step, detector, proposal)
        for action in expected
    )


def _alike(action: ExpectedAction, step: Step, detector: Detector, proposal: Proposal) -> bool:
    """Tell whether an expected call is on the same object; where a value is accused, whether it has that."""
    given, wanted = step.given, flat(action.arguments)
    if detector.mistake == "wrong_value":
        names = {str(proposal.args[key]) for key in ("argument", "field") if proposal.args.get(key)}
        return given == wanted if not names & given.keys() else _same(given, wanted, names & given.keys())
    named = {name for name, value in given.items() if looks_like_id(value)}
    return bool(named) and _same(given, wanted, named & wanted.keys() or named)


def _same(given: Mapping[str, object], wanted: Mapping[str, object], names: set[str]) -> bool:
    return all(normal(given.get(name)) == normal(wanted.get(name)) for name in names)
