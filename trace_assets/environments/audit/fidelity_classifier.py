"""Whether a classifier can tell generated episodes from real ones."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.leak import out_of_fold
from trace_assets.environments.audit import fidelity, fidelity_results
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.fidelity_material import (
    MIN_REAL,
    focus_of,
    real_episodes,
    too_few,
    with_reference,
)
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.protocol import Turn, turns_of
from trace_assets.stats.intervals import Estimate
from trace_assets.stats.ranking import rank

Floats = NDArray[np.float64]

WORDS, CHARACTERS = 40, 16
"""Buckets that words and pairs of words, and runs of three characters, are hashed into. Few, because there
are some hundred episodes; and so small a matrix is not given to several threads, which on a busy machine
takes a hundred times as long."""
RESAMPLES = 200
DEALS = 5
"""How often the groups are dealt to folds. With one deal the interval of two halves of real episodes left out
0.5 in 10 to 20 % of 40 splits, with five in 2.5 to 10 %."""


@with_reference
def auc(subject: Subject, contract: TargetContract) -> Finding:
    """A classifier that sees what user and tools say does not tell every episode from real ones.

    A logistic regression on hashed words, pairs of words and runs of three characters (Weinberger et al.
    2009, "Feature hashing for large scale multitask learning") and a few figures of structure, identifiers
    and numbers masked. What the agent says is left out: the oracle is not the agent.
    """
    focus = focus_of(subject, contract)
    real = real_episodes(contract, focus, failed_too=True)
    if len(real) < MIN_REAL:
        return too_few(len(real), focus, "real episodes")
    ours = [(one.task_id, turns_of(one.messages)) for one in focus.episodes]
    features = np.array(
        [features_of(turns) for turns in [*(one.turns for one in real), *(t for _, t in ours)]]
    )
    synthetic = np.array([False] * len(real) + [True] * len(ours))
    groups = [f"real/{one.task}" for one in real] + [f"seed/{seed}" for seed, _ in ours]
    found = told_apart(features, synthetic, groups)
    if found.value is None or found.low is None:
        return too_few(len(real), focus, "real episodes")
    bound = f"lower bound <= {subject.rules.max_auc}"
    evidence = (
        f"AUC {found.value:.3f}, 95 % interval [{found.low:.3f}, {found.high:.3f}]; {len(ours)} episodes of "
        f"the oracle against {len(real)} real ones of {len({one.task for one in real})} tasks"
    )
    passed = found.low <= subject.rules.max_auc
    return Finding(
        "pass" if passed else "fail", evidence, found.value, len(ours), bound, low=found.low, high=found.high
    )


def told_apart(features: Floats, synthetic: NDArray[np.bool_], groups: Sequence[str]) -> Estimate:
    """Return how well a classifier tells generated rows from real ones.

    Scores are out of fold, all rows of a group in one fold; the area under the ROC curve counts pairs of one
    fold only. It and the bounds of its interval are means over several deals of the groups to folds.

    Args:
        features: Shape `(n, d)`.
        synthetic: Shape `(n,)`.
        groups: Trials of a real task, or a seed.
    """
    found = []
    for deal in range(DEALS):
        scores, folds = out_of_fold(features, synthetic, groups, deal)
        one = rank(scores, synthetic, folds.tolist(), groups, resamples=RESAMPLES, seed=deal).auc
        if one.value is None or one.low is None or one.high is None:
            return Estimate(None, None, None)
        found.append((one.value, one.low, one.high))
    value, low, high = np.mean(found, axis=0).tolist()
    return Estimate(value, low, high)


def features_of(turns: Sequence[Turn]) -> Floats:
    """Return what a classifier sees of an episode: shape `(WORDS + CHARACTERS + 6,)`.

    Words and characters are shares, so that a long episode is not told by its length alone.
    """
    words, characters = np.zeros(WORDS), np.zeros(CHARACTERS)
    heard = [turn for turn in turns if turn.role in ("user", "tool")]
    for turn in heard:
        for gram in _grams(turn.text):
            words[_bucket(f"{turn.role}/{gram}", WORDS)] += 1
        for start in range(len(turn.text) - 2):
            characters[_bucket(turn.text[start : start + 3], CHARACTERS)] += 1
    users = [turn for turn in heard if turn.role == "user"]
    results = [turn for turn in heard if turn.role == "tool"]
    structure = [
        len(users),
        float(np.log1p(np.mean([turn.characters for turn in users]))) if users else 0.0,
        len(results),
        float(np.log1p(np.mean([turn.characters for turn in results]))) if results else 0.0,
        sum(turn.is_error for turn in results) / max(1, len(results)),
        sum(turn.text.lstrip()[:1] in ("{", "[") for turn in results) / max(1, len(results)),
    ]
    return np.concatenate([words / max(1.0, words.sum()), characters / max(1.0, characters.sum()), structure])


def _grams(text: str) -> Iterator[str]:
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    yield from words
    yield from (f"{one} {other}" for one, other in pairwise(words))


def _bucket(text: str, size: int) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % size


_TOLD = ("trace.fidelity.result_shape", "trace.fidelity.error_shape", "trace.fidelity.lengths")
CLASSIFIER_CHECKS = (AuditCheck("trace.fidelity.auc", "fidelity", auc, ("semantic.oracle_max",), _TOLD),)


FIDELITY_CHECKS = (
    *fidelity.SCHEMA_CHECKS,
    *fidelity_results.RESULT_CHECKS,
    *fidelity.ERROR_CHECKS,
    *fidelity.SEQUENCE_CHECKS,
    *fidelity.LENGTH_CHECKS,
    *CLASSIFIER_CHECKS,
)
