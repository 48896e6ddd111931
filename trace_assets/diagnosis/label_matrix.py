"""Labels of one target as one small matrix: what the labellers settle on, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trace_assets.records import Agreement, Consensus, Label, LackCause, Triage
from trace_assets.settings import ContrastSection
from trace_assets.stats.agreement import alpha_estimate, dawid_skene

# What several labellers and passes make of an item together, and how far they agree.


MISSING, NA, PRESENT, LACKING = -1, 0, 1, 2
SETTLED = 0.7
"""Posterior from which the most probable label counts. Two coders who contradict each other do not reach it:
the item then has no label, which is not the same as NA. In simulations, siding with one of them biases both
error rates, and counting such items as NA biases the coverage, while leaving them out does neither."""

Codes = NDArray[np.int8]
Coder = tuple[str, int]
"""Who labelled: labeller and pass."""


def reconcile(votes: Codes) -> tuple[Codes, NDArray[np.float64] | None]:
    """Return one label an item, and the posterior behind it.

    With a single coder its label stands. With several, Dawid and Skene's model weighs them by how they err;
    the capabilities share each coder's confusion matrix and have prevalences of their own.

    Args:
        votes: Codes, shape `(capabilities, trajectories, coders)`, MISSING where a coder says nothing.

    Returns:
        Codes of shape `(capabilities, trajectories)`, MISSING where no coder gave any or the coders cannot
        settle it, and the posterior of shape `(capabilities, trajectories, 3)`; None with a single coder.

    >>> votes = np.array([[[2, 2, 1], [2, 2, 2], [1, 1, 1], [1, 1, 1], [-1, 2, -1], [-1, -1, -1]]], np.int8)
    >>> reconcile(votes)[0].tolist()
    [[2, 2, 1, 1, 2, -1]]
    >>> reconcile(votes[:, :, :1])[1] is None
    True
    """
    rows, columns, coders = votes.shape
    if coders < 2 or not rows or not columns:
        return votes.max(axis=-1, initial=MISSING), None
    fit = dawid_skene(votes.reshape(rows * columns, coders), np.repeat(np.arange(rows), columns))
    posterior = fit.posterior.reshape(rows, columns, 3)
    given = (votes != MISSING).sum(axis=-1)
    best = np.where(given > 0, np.nan_to_num(posterior).argmax(axis=-1), MISSING)
    unsure = (given > 1) & (np.nan_to_num(posterior).max(axis=-1) < SETTLED)
    codes = np.where(unsure, MISSING, best)
    alone = votes.max(axis=-1)  # an item that one coder saw has that coder's label
    return np.where(given == 1, alone, codes).astype(np.int8), posterior


def majority(votes: Codes) -> Codes:
    """Return the label that most passes gave; MISSING on a tie, or where no pass gave any.

    Args:
        votes: Codes, passes along the last axis.

    >>> majority(np.array([[2, 2, 1], [2, 1, -1], [-1, 2, -1], [-1, -1, -1]], dtype=np.int8)).tolist()
    [2, -1, 2, -1]
    """
    counts = np.stack([(votes == code).sum(axis=-1) for code in (NA, PRESENT, LACKING)], axis=-1)
    best = counts.max(axis=-1)
    tie = (counts == best[..., None]).sum(axis=-1) > 1
    return np.where(tie, MISSING, counts.argmax(axis=-1)).astype(np.int8)


def by_labeller(votes: Codes, coders: Sequence[Coder]) -> Codes:
    """Return what each labeller says, passes settled by their majority; MISSING where they tie.

    Args:
        votes: Codes, shape `(capabilities, trajectories, coders)`.
        coders: Labeller and pass of each.

    >>> votes = np.array([[[2, 2, 1], [2, 1, 1]]], dtype=np.int8)
    >>> by_labeller(votes, [("m", 1), ("m", 2), ("n", 0)]).tolist()
    [[[2, 1], [-1, 1]]]
    """
    names = sorted({name for name, _ in coders})
    if len(names) == len(coders):
        return votes
    places = [[place for place, coder in enumerate(coders) if coder[0] == name] for name in names]
    return np.stack([majority(votes[..., own]) for own in places], axis=-1)


def shares(votes: Codes) -> NDArray[np.float64]:
    """Return the share of the passes that gave each label; not a number where none gave any.

    >>> shares(np.array([[[2, 2, 1, -1]]], dtype=np.int8)).round(2).tolist()
    [[[0.0, 0.33, 0.67]]]
    """
    counts = np.stack([(votes == code).sum(axis=-1) for code in (NA, PRESENT, LACKING)], axis=-1)
    given = counts.sum(axis=-1, keepdims=True)
    found = np.full(counts.shape, np.nan)
    np.divide(counts, given, out=found, where=given > 0)
    return found


CODES = {"NA": NA, "PRESENT": PRESENT, "LACKING": LACKING, "CANNOT_TELL": MISSING}
NO_EVIDENCE = np.iinfo(np.int32).max
"""Stands for the place of evidence that is an absence: later than any message."""


@dataclass(frozen=True)
class LabelMatrix:
    """Labels of the trajectories that enter the contrast.

    Attributes:
        capabilities: Ids, sorted: the rows.
        trajectories: Ids sorted by task and id: the columns. Only successes and the agent's own failures.
        tasks: Index of each column's task, shape `(columns,)`, counting from 0 without holes.
        failed: Whether the column is a failure, shape `(columns,)`.
        codes: NA, PRESENT or LACKING as the coders settle it, MISSING where they do not or nobody labelled,
            shape `(rows, columns)`.
        evidence: First message that shows it, NO_EVIDENCE where none does, shape `(rows, columns)`.
        coders: Who labelled, as labeller and pass; one of them unless there are several.
        votes: What each coder said, shape `(rows, columns, coders)`; None with a single one.
        posterior: Probability of NA, PRESENT and LACKING, shape `(rows, columns, 3)`: Dawid and Skene's over
            labellers, or the share of one labeller's passes; None with a single coder.
        policy: Index of who played each column, shape `(columns,)`; None where one policy played all.
        policies: Their names, sorted.
    """

    capabilities: tuple[str, ...]
    trajectories: tuple[str, ...]
    tasks: NDArray[np.int64]
    failed: NDArray[np.bool_]
    codes: Codes
    evidence: NDArray[np.int32]
    coders: tuple[Coder, ...] = (("", 0),)
    votes: Codes | None = None
    posterior: NDArray[np.float64] | None = None
    policy: NDArray[np.int64] | None = None
    policies: tuple[str, ...] = ()
    decisive: NDArray[np.int8] | None = None
    """1 where a lack decided the end, -1 where it did not, 0 where nobody can say; None if none was asked."""

    @property
    def deciding(self) -> NDArray[np.bool_]:
        """Where a capability is lacking and nobody says that this did not decide the end."""
        lacking: NDArray[np.bool_] = self.codes == LACKING
        if self.decisive is not None:
            lacking &= self.decisive >= 0
        return lacking

    @classmethod
    def build(
        cls,
        labels: Sequence[Label],
        triage: Sequence[Triage],
        target: str,
        causes: Sequence[LackCause] = (),
    ) -> LabelMatrix:
        """Reconcile the coders and put labels beside outcomes.

        A failure that triage puts down to a simulator, environment or server is left out, and so is an
        episode that was not judged.

        Args:
            labels: Of any number of labellers and passes, in any order, other targets' labels among them.
            triage: Outcomes; labels of trajectories that are not here are left out.
            target: Whose rows to use.
            causes: Which lacks decided the end, where somebody said.
        """
        counted = sorted(
            (row.task_id, row.trajectory_id, row.outcome == "failed", row.policy)
            for row in triage
            if row.target == target
            and (row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent"))
        )
        known = {row.trajectory_id for row in triage if row.target == target}
        column = {trajectory: place for place, (_, trajectory, _, _) in enumerate(counted)}
        own = [row for row in labels if row.trajectory_id in column]
        capabilities = tuple(sorted({row.capability_id for row in labels if row.trajectory_id in known}))
        coders = tuple(sorted({(row.labeller, row.labelling_pass) for row in own}))
        coder = {one: place for place, one in enumerate(coders)}
        line = {capability: place for place, capability in enumerate(capabilities)}
        votes = np.full((len(capabilities), len(column), max(1, len(coders))), MISSING, dtype=np.int8)
        evidence = np.full(votes.shape[:2], NO_EVIDENCE, dtype=np.int32)
        for row in own:
            where = line[row.capability_id], column[row.trajectory_id]
            votes[(*where, coder[row.labeller, row.labelling_pass])] = CODES[row.label]
            if row.label == "LACKING" and row.evidence:
                evidence[where] = min(int(evidence[where]), min(row.evidence))
        # Passes of one model are exchangeable: none of them errs in a way of its own, as labellers do.
        codes, posterior = reconcile(by_labeller(votes, coders))
        if posterior is None and len(coders) > 1:
            posterior = shares(votes)
        policies, policy = np.unique([who for *_, who in counted], return_inverse=True)
        return cls(
            capabilities=capabilities,
            trajectories=tuple(trajectory for _, trajectory, _, _ in counted),
            tasks=np.unique([task for task, _, _, _ in counted], return_inverse=True)[1].astype(np.int64),
            failed=np.array([failed for _, _, failed, _ in counted], dtype=np.bool_),
            codes=codes,
            evidence=evidence,
            coders=coders or (("", 0),),
            votes=votes if len(coders) > 1 else None,
            posterior=posterior,
            policy=policy.astype(np.int64) if len(policies) > 1 else None,
            policies=tuple(str(one) for one in policies),
            decisive=_decisive(causes, line, column),
        )

    def take(self, rows: Sequence[int]) -> LabelMatrix:
        """Return the matrix of some of the capabilities, in the order given."""
        places = list(rows)
        return replace(
            self,
            capabilities=tuple(self.capabilities[place] for place in places),
            codes=self.codes[places],
            evidence=self.evidence[places],
            votes=None if self.votes is None else self.votes[places],
            posterior=None if self.posterior is None else self.posterior[places],
            decisive=None if self.decisive is None else self.decisive[places],
        )

    def draw(self, tasks: NDArray[np.int64]) -> LabelMatrix:
        """Return the matrix of some of the tasks, each as often as it is named: a resample.

        Args:
            tasks: Indices of tasks; one that is named twice becomes two tasks.
        """
        order = np.argsort(self.tasks, kind="stable")
        starts = np.searchsorted(self.tasks[order], np.arange(int(self.tasks.max(initial=-1)) + 2))
        columns = [order[starts[task] : starts[task + 1]] for task in tasks]
        where = np.concatenate(columns) if columns else np.zeros(0, dtype=np.int64)
        return replace(
            self,
            trajectories=tuple(self.trajectories[place] for place in where) if self.trajectories else (),
            tasks=np.repeat(np.arange(len(columns)), [len(one) for one in columns]),
            failed=self.failed[where],
            codes=self.codes[:, where],
            evidence=self.evidence[:, where],
            votes=None if self.votes is None else self.votes[:, where],
            posterior=None if self.posterior is None else self.posterior[:, where],
            policy=None if self.policy is None else self.policy[where],
            decisive=None if self.decisive is None else self.decisive[:, where],
        )


def _decisive(
    causes: Sequence[LackCause], line: Mapping[str, int], column: Mapping[str, int]
) -> NDArray[np.int8] | None:
    said = {"yes": 1, "no": -1, "cannot_tell": 0}
    own = [row for row in causes if row.capability_id in line and row.trajectory_id in column]
    if not own:
        return None
    found = np.zeros((len(line), len(column)), dtype=np.int8)
    for row in own:
        found[line[row.capability_id], column[row.trajectory_id]] = said[row.decisive]
    return found


def agreement_of(matrix: LabelMatrix, section: ContrastSection, target: str) -> list[Agreement]:
    """Return how far labels agree: over all of them, between passes of a labeller, between two labellers.

    Args:
        matrix: Labels of one target.
        section: Resamples, confidence and seed of the intervals, which draw whole tasks.
        target: Named in the rows.

    Returns:
        Rows for each capability that some trajectory has two labels of; none with a single coder.
    """
    if matrix.votes is None:
        return []
    labellers = sorted({name for name, _ in matrix.coders})
    own = {
        name: [place for place, coder in enumerate(matrix.coders) if coder[0] == name] for name in labellers
    }
    rows = []
    for place, capability in enumerate(matrix.capabilities):
        votes = matrix.votes[place]
        compared: list[tuple[str, str, Codes]] = [("all", ", ".join(labellers), votes)]
        compared += [("passes", name, votes[:, own[name]]) for name in labellers if len(own[name]) > 1]
        said = {name: majority(votes[:, own[name]]) for name in labellers}
        compared += [
            ("labellers", f"{one}, {other}", np.stack([said[one], said[other]], axis=1))
            for one, other in combinations(labellers, 2)
        ]
        for between, names, codes in compared:
            several = int(((codes != MISSING).sum(axis=1) > 1).sum())
            if not several:
                continue
            alpha = alpha_estimate(
                codes,
                matrix.tasks,
                resamples=section.resamples,
                seed=section.seed,
                confidence=section.confidence,
            )
            rows.append(
                Agreement.model_validate(
                    {
                        "capability_id": capability,
                        "target": target,
                        "between": between,
                        "coders": names,
                        "alpha": alpha.value,
                        "alpha_low": alpha.low,
                        "alpha_high": alpha.high,
                        "n_items": several,
                        "n_coders": int((codes != MISSING).any(axis=0).sum()),
                    }
                )
            )
    return rows


def consensus_of(matrix: LabelMatrix, target: str) -> list[Consensus]:
    """Return the settled label and the posterior of every item that was labelled more than once."""
    if matrix.votes is None or matrix.posterior is None:
        return []
    names = {code: name for name, code in CODES.items() if code != MISSING}
    given = (matrix.votes != MISSING).sum(axis=2)
    rows = []
    for line, column in np.argwhere(given > 1).tolist():
        na, present, lacking = (float(one) for one in matrix.posterior[line, column])
        votes = matrix.votes[line, column]
        rows.append(
            Consensus.model_validate(
                {
                    "trajectory_id": matrix.trajectories[column],
                    "capability_id": matrix.capabilities[line],
                    "target": target,
                    "label": names.get(int(matrix.codes[line, column])),
                    "p_na": na,
                    "p_present": present,
                    "p_lacking": lacking,
                    "n_coders": int(given[line, column]),
                    "unanimous": len(set(votes[votes != MISSING].tolist())) == 1,
                }
            )
        )
    return rows
