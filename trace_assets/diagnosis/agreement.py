"""Tables of what several labellers and passes say of the same items."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from trace_assets.diagnosis.label_matrix import CODES, MISSING, Codes, LabelMatrix, majority
from trace_assets.records import Agreement, Consensus
from trace_assets.settings import ContrastSection
from trace_assets.stats.agreement import alpha_estimate


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
