"""Whether tools are called in the order in which real successful agents call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log2

import numpy as np

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.fidelity.material import (
    MIN_REAL,
    focus_of,
    real_sequences,
    too_few,
    with_reference,
)
from trace_assets.synthesis.contract.target_contract import TargetContract

HALVINGS = 50


@with_reference
def tool_ngrams(subject: Subject, contract: TargetContract) -> Finding:
    """The oracle calls tools in an order that real successful agents use.

    Compared are pairs of neighbouring calls (with the beginning and the end) of the oracle's episodes and of
    the real successful trajectories in which one of its changes was made, calls of other tools left out: by
    the Jensen-Shannon divergence in bits, 0 for equal shares and 1 for nothing in common (Lin 1991,
    "Divergence measures based on the Shannon entropy", IEEE Transactions on Information Theory 37:145).
    Beside it stands what two random halves of the real ones differ by.
    """
    focus = focus_of(subject, contract)
    real = real_sequences(contract, focus)
    if len(real) < MIN_REAL:
        return too_few(len(real), focus)
    ours, theirs = bigrams(focus.sequences), bigrams(real)
    value, bound = divergence(ours, theirs), f"<= {subject.rules.max_ngram_divergence}"
    new = [pair for pair, _ in ours.most_common() if pair not in theirs]
    unseen = sum(ours[pair] for pair in new) / ours.total()
    evidence = (
        f"{unseen:.0%} of its pairs of calls were never seen in {len(real)} real successes"
        f"{f', such as {new[0][0]} then {new[0][1]}' if new else ''}; two halves of those differ by "
        f"{halves(real):.2f}"
    )
    passed = value <= subject.rules.max_ngram_divergence
    return Finding("pass" if passed else "fail", evidence, value, len(focus.sequences), bound)


def bigrams(sequences: Iterable[Sequence[str]]) -> Counter[tuple[str, str]]:
    """Count neighbouring calls, with `begin` and `end`.

    >>> sorted(bigrams([["get", "put"]]))
    [('begin', 'get'), ('get', 'put'), ('put', 'end')]
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for sequence in sequences:
        pairs.update(zip(("begin", *sequence), (*sequence, "end"), strict=True))
    return pairs


def divergence(one: Counter[tuple[str, str]], other: Counter[tuple[str, str]]) -> float:
    """Return the Jensen-Shannon divergence of two counts in bits, between 0 and 1.

    >>> a, b = Counter({("x", "y"): 3}), Counter({("y", "x"): 1})
    >>> divergence(a, a), divergence(a, b)
    (0.0, 1.0)
    """
    total = 0.0
    for counts in (one, other):
        for pair, n in counts.items():
            p = n / counts.total()
            mean = (one[pair] / one.total() + other[pair] / other.total()) / 2
            total += p * log2(p / mean) / 2
    return min(1.0, max(0.0, total))


def halves(sequences: Sequence[Sequence[str]]) -> float:
    """Return the median divergence between two random halves: what chance alone makes."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(HALVINGS):
        order = rng.permutation(len(sequences))
        middle = len(order) // 2
        parts = [bigrams(sequences[i] for i in part) for part in (order[:middle], order[middle:])]
        found.append(divergence(*parts))
    return float(np.median(found))


CHECKS = (AuditCheck("trace.fidelity.tool_ngrams", "fidelity", tool_ngrams, ("semantic.oracle_max",)),)
