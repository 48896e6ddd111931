"""What several labellers and passes make of an item together, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trace_assets.records import Agreement
from trace_assets.statistics.agreement import alpha_estimate
from trace_assets.statistics.dawid_skene import dawid_skene

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


def agreement_rows(
    votes: Codes,
    coders: Sequence[Coder],
    capabilities: Sequence[str],
    tasks: NDArray[np.int64],
    target: str,
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Agreement]:
    """Return how far labels agree: over all of them, between passes of a labeller, between two labellers.

    Args:
        votes: Codes, shape `(capabilities, trajectories, coders)`.
        coders: Who is behind the last axis.
        capabilities: Ids of the first axis.
        tasks: Task of each trajectory, counted from 0: intervals draw whole tasks.
        target: Whose trajectories these are.
        resamples: Bootstrap draws.
        seed: The same seed gives the same intervals.
        confidence: Nominal coverage.

    Returns:
        Rows for each capability that some trajectory has two labels of; none with a single coder.
    """
    if len(coders) < 2:
        return []
    labellers = sorted({name for name, _ in coders})
    own = {name: [place for place, coder in enumerate(coders) if coder[0] == name] for name in labellers}
    rows = []
    for place, capability in enumerate(capabilities):
        compared: list[tuple[str, str, Codes]] = [("all", ", ".join(labellers), votes[place])]
        compared += [("passes", name, votes[place][:, own[name]]) for name in labellers if len(own[name]) > 1]
        said = {name: majority(votes[place][:, own[name]]) for name in labellers}
        compared += [
            ("labellers", f"{one}, {other}", np.stack([said[one], said[other]], axis=1))
            for one, other in combinations(labellers, 2)
        ]
        for between, names, codes in compared:
            several = int(((codes != MISSING).sum(axis=1) > 1).sum())
            if not several:
                continue
            alpha = alpha_estimate(codes, tasks, resamples=resamples, seed=seed, confidence=confidence)
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
                        "n_coders": codes.shape[1],
                    }
                )
            )
    return rows


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
