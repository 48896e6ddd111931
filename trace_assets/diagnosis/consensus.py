"""What several labellers and passes make of an item together, and how far they agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
