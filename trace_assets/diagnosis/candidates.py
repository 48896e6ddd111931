"""All that detectors propose, labelled blind, and which of it becomes a candidate by its outcomes.

The two are apart so that the second can be repeated cheaply, on resampled tasks or shuffled outcomes. No
candidate is what accuses the very calls that tasks demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.contrast import can_be_tested
from trace_assets.diagnosis.detectors import FAMILIES, Corpus, Detector, Proposal, Transcript
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.protocol import joined, label_with, parents, speaks_of_all
from trace_assets.diagnosis.detectors.transcript import Step
from trace_assets.diagnosis.detectors.values import flat
from trace_assets.diagnosis.label_matrix import CODES, LACKING, NA, NO_EVIDENCE, PRESENT, Codes
from trace_assets.records import ExpectedAction
from trace_assets.settings import Discovery

# What tasks themselves demand is no mistake: proposals that accuse the very calls of the ground truth. A
# ban found in what runs do, or read in a policy, may be a misreading: `refrain from changing a one-way
# trip`, where half of the tasks ask for just that. Known without a look at any outcome; ground truths are
# opened for proposals only, never for labels.

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
        refuted.append(
            (len(set(wanted)) >= MIN_DEMANDED and len(wanted) > DEMANDED * known)
            or (
                detector.name == "write_against_state"
                and _in_state(proposal, codes[row], transcripts, expected)
            )
        )
    return refuted


def _in_state(
    proposal: Proposal, codes: Codes, transcripts: Sequence[Transcript], expected: Expected
) -> bool:
    """Tell whether tasks demand a call on objects in the very state in which runs leave it.

    A state that most runs leave alone is no rule: who is asked for what only insured trips allow mostly has
    none. Tasks whose runs did not make the call speak as loud as those whose runs made it.
    """
    args = proposal.args
    wanted, known = set[str](), set[str]()
    for one, code in zip(transcripts, codes, strict=True):
        names = {args["tool"], *(step.called for step in one.steps if step.tool == args["tool"])}
        objects = {
            normal(flat(action.arguments).get(args["argument"]))
            for action in expected.get(one.task_id, ())
            if action.name in names
        }
        first = (
            next(
                (
                    seen.fields[args["field"]]
                    for seen in one.observations.get(name, ())
                    if args["field"] in seen.fields
                ),
                "",
            )
            for name in objects
        )
        if args["value"] in first:
            wanted.add(one.task_id)
        elif code != NA and one.task_id in expected:
            known.add(one.task_id)
    return len(wanted) >= MIN_DEMANDED and len(wanted) > DEMANDED * len(wanted | known)


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


MIN_NORM = 3
"""Relevant successful trajectories that a norm must rest on."""
UNTESTED = 0.1
"""Share of the failures that lack what no success was tried on, from which it is told of."""
MERGE_OVERLAP = 0.9
"""Two candidates are one when their labels agree on this share of the trajectories either is relevant to."""

SAME_PLACE = 2
"""Messages between two places that show one thing: a call, its answer, what was said of it."""
MORE_EXACT = 0.5
"""Of the runs that one speaks of, the share that another must speak of at most to be the more exact one."""


@dataclass(frozen=True)
class Pool:
    """Proposals with their labels.

    Attributes:
        detectors: The family of each proposal.
        proposals: What was proposed, sorted by family and subject: the rows.
        codes: NA, PRESENT or LACKING, shape `(proposals, trajectories)`.
        evidence: First message that shows a lack, NO_EVIDENCE where none does, same shape.
    """

    detectors: tuple[Detector, ...]
    proposals: tuple[Proposal, ...]
    codes: Codes
    evidence: NDArray[np.int32]

    @classmethod
    def build(
        cls, corpus: Corpus, families: Sequence[Detector] = FAMILIES, expected: Expected | None = None
    ) -> Pool:
        """Let families propose from blind transcripts, and label all of them with all proposals.

        Args:
            corpus: The transcripts.
            families: Who proposes.
            expected: What tasks demand, where it may be known: what accuses just that is left out.
        """
        found = [
            (detector, proposal)
            for detector in families
            for proposal in sorted(detector.propose(corpus), key=lambda one: one.subject)
        ]
        found = _without_proxies(found)
        codes = np.full((len(found), len(corpus.transcripts)), NA, dtype=np.int8)
        evidence = np.full(codes.shape, NO_EVIDENCE, dtype=np.int32)
        for row, (detector, proposal) in enumerate(found):
            for column, transcript in enumerate(corpus.transcripts):
                finding = detector.label(transcript, proposal.args)
                codes[row, column] = CODES[finding.label]
                if finding.label == "LACKING" and finding.evidence:
                    evidence[row, column] = min(finding.evidence)
        right = np.array(
            [not one for one in demanded(found, codes, corpus.transcripts, expected or {})], bool
        )
        found = [one for one, stays in zip(found, right, strict=True) if stays]
        codes, evidence = codes[right], evidence[right]
        for detector, proposal, rows in parents(found, codes):
            code, places = joined(codes, evidence, rows)
            found.append((detector, proposal))
            codes, evidence = np.vstack([codes, code]), np.vstack([evidence, places])
        return cls(tuple(one for one, _ in found), tuple(one for _, one in found), codes, evidence)

    def take(self, columns: NDArray[np.int64]) -> Pool:
        """Return the pool with some of the trajectories, in the order given."""
        return replace(self, codes=self.codes[:, columns], evidence=self.evidence[:, columns])

    def supported(self, min_support: int) -> NDArray[np.int64]:
        """Return the rows that enough trajectories lack and some show: known without a look at outcomes.

        What a rule asks for and no run does need not be shown.
        """
        lacking = (self.codes == LACKING).sum(axis=1)
        shown = (self.codes == PRESENT).any(axis=1) | self.never
        return np.flatnonzero((lacking >= min_support) & shown)

    @property
    def never(self) -> NDArray[np.bool_]:
        """Which rows ask for what no run does."""
        return np.array([one.never for one in self.proposals], dtype=bool)

    def norm(self, row: int) -> float:
        """Return the share of relevant successes that must show a row; of what nobody does, none."""
        return 0.0 if self.proposals[row].never else self.detectors[row].norm

    def findings(self, min_support: int) -> NDArray[np.int64]:
        """Return the supported rows without twins: of those that label nearly everything alike, one stands.

        It is that of the earliest family, and of one family that with the most support: outcomes do not
        enter, so that how many findings there were to pick from is known without them. Then one stands of
        those that make the same kind of mistake of what nearly the same runs lack at the same place
        (`one_event`), however many runs show them: they are one thing that happened, told twice. That is
        the one of which fewer runs speak, of another family than the earlier one's far fewer.
        """
        rows = self.supported(min_support)
        family = {detector.name: place for place, detector in enumerate(FAMILIES)}
        # A parent gives way to a child that labels nearly everything alike.
        first = [(family[self.detectors[row].name], speaks_of_all(self.proposals[row].args)) for row in rows]
        support = (self.codes[rows] == LACKING).sum(axis=1)
        relevant = (self.codes[rows] > NA).sum(axis=1)
        never = self.never[rows]
        apart = never[:, None] & never[None]  # two duties that nobody does
        alike = twins(self.codes[rows]) & ~apart
        kinds = np.array([self.detectors[row].mistake for row in rows])
        told_twice = one_event(self.codes[rows], self.evidence[rows]) & ~apart
        told_twice &= kinds[:, None] == kinds[None]
        kept: list[int] = []
        for place in sorted(range(len(rows)), key=lambda one: (first[one], -support[one], one)):
            if alike[place, kept].any():
                continue
            same = [one for one in kept if told_twice[place, one]]
            share = {one: 1.0 if first[one][0] == first[place][0] else MORE_EXACT for one in same}
            if all(relevant[place] < share[one] * relevant[one] for one in same):
                kept = [one for one in kept if one not in same] + [place]
        return rows[sorted(kept)]

    def normed(self, min_support: int) -> tuple[Codes, NDArray[np.float64]]:
        """Return labels and norms of the findings, from which candidates are picked by outcomes."""
        rows = self.findings(min_support)
        return self.codes[rows], np.array([self.norm(row) for row in rows])

    def considered(self, passed: NDArray[np.bool_], failed: NDArray[np.bool_], section: Discovery) -> int:
        """Return how many findings the contrast could test: those relevant often enough on both sides.

        That depends on outcomes, but not on how labels go with them: a permutation leaves it as it is, so it
        may be known before the test (Bourgon et al. 2010, "Independent filtering increases detection power",
        PNAS 107:9546).
        """
        relevant = self.codes[self.findings(section.support(int(failed.sum())))] > NA
        return int(np.sum(can_be_tested(relevant[:, failed].sum(axis=1), relevant[:, passed].sum(axis=1))))

    def pick(self, passed: NDArray[np.bool_], failed: NDArray[np.bool_], section: Discovery) -> list[int]:
        """Return the rows that become candidates, the best first.

        A finding is picked when successful trajectories for whose task it is relevant mostly show it (the
        family's norm). Where hardly any success was one that needed it, and none lacks it, it is picked when
        a good part of the failures lack it: it cannot be tested, but somebody should read it. So with what
        no run does: successes that lack it too say that it did not decide them. Those that cover more
        failures and fewer successes come first.

        Args:
            passed: Which trajectories passed; one that is neither was not judged.
            failed: Which failed.
            section: Support, and how many candidates at most.
        """
        rows = self.findings(section.support(int(failed.sum())))
        codes = self.codes[rows]
        shown = (codes[:, passed] == PRESENT).sum(axis=1)
        missed = (codes[:, passed] == LACKING).sum(axis=1)
        norms = np.array([self.norm(row) for row in rows])
        normal = (shown + missed >= MIN_NORM) & (shown >= norms * (shown + missed))
        covered = (codes[:, failed] == LACKING).sum(axis=1) / max(1, int(failed.sum()))
        untried = (missed == 0) | self.never[rows]
        normal |= (shown + missed < MIN_NORM) & untried & (covered >= UNTESTED)
        score = covered - missed / max(1, int(passed.sum()))
        order = rows[normal][np.argsort(-score[normal], kind="stable")]
        return [int(row) for row in order[: section.max_candidates]]


def _without_proxies(found: list[tuple[Detector, Proposal]]) -> list[tuple[Detector, Proposal]]:
    """Leave out what speaks of one field where a rule of all its fields is there.

    A single field of a rule of three accuses what the rule allows, and an environment written from it would
    teach to refuse that.
    """
    whole = ("write_against_policy", "write_against_clauses")
    ruled = {proposal.args["tool"] for detector, proposal in found if detector.name in whole}
    parts = {
        (proposal.args["tool"], field)
        for detector, proposal in found
        if detector.name == "write_against_clauses"
        for field in proposal.args["fields"]
    }
    return [
        (detector, proposal)
        for detector, proposal in found
        if not (detector.name == "write_against_state" and proposal.args["tool"] in ruled)
        and not (
            detector.name == "write_against_rule"
            and (proposal.args["tool"], proposal.args.get("field")) in parts
        )
    ]


def twins(codes: Codes, others: Codes | None = None) -> NDArray[np.bool_]:
    """Return which rows label nearly everything alike, of the trajectories that either is relevant to.

    Args:
        codes: Shape `(rows, trajectories)`.
        others: Shape `(others, trajectories)`; the same rows unless given.

    Returns:
        Shape `(rows, others)`.

    >>> twins(np.array([[2, 1, 0], [2, 1, 0], [1, 1, 0]], dtype=np.int8)).tolist()
    [[True, True, False], [True, True, False], [False, False, True]]
    """
    second = codes if others is None else others
    agree = sum(
        (codes == code).astype(np.float32) @ (second == code).astype(np.float32).T
        for code in (PRESENT, LACKING)
    )
    one, other = (codes > NA).astype(np.float32), (second > NA).astype(np.float32)
    either = one.sum(axis=1)[:, None] + other.sum(axis=1)[None] - one @ other.T
    return np.asarray(agree >= MERGE_OVERLAP * either - 1e-3)


def one_event(codes: Codes, evidence: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which rows nearly the same trajectories lack, shown by the same place in nearly all of these.

    Args:
        codes: Shape `(rows, trajectories)`.
        evidence: First message that shows a lack, same shape.

    >>> shown = np.array([[4, 9, 0], [5, 8, 0], [1, 1, 0]], dtype=np.int32)
    >>> one_event(np.array([[2, 2, 0], [2, 2, 1], [2, 2, 1]], dtype=np.int8), shown)[0].tolist()
    [True, True, False]
    """
    lacking = codes == LACKING
    shared = lacking.astype(np.float32) @ lacking.astype(np.float32).T
    n = lacking.sum(axis=1)
    found = shared >= MERGE_OVERLAP * (n[:, None] + n[None] - shared) - 1e-3
    for one, other in np.argwhere(found & (shared > 0)):
        both = lacking[one] & lacking[other]
        places = evidence[one, both].astype(np.int64), evidence[other, both]
        near = (np.abs(places[0] - places[1]) <= SAME_PLACE) & (places[1] != NO_EVIDENCE)
        found[one, other] = near.mean() >= MERGE_OVERLAP
    return np.asarray(found & (shared > 0))
