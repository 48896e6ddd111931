"""Whether tools answer as the target's do, and whether a classifier can tell their episodes apart."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import log2
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.leak import out_of_fold
from trace_assets.environments.audit import fidelity_results
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.fidelity_results import (
    MIN_REAL,
    NO_CONTRACT,
    focus_of,
    messy_episodes,
    oracle_episodes,
    real_episodes,
    real_sequences,
    too_few,
    with_reference,
)
from trace_assets.environments.contract.answers import answered_calls, parsed
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.protocol import Turn, spread_of, turns_of
from trace_assets.stats.intervals import Estimate
from trace_assets.stats.ranking import rank


@with_reference
def error_shape(subject: Subject, contract: TargetContract) -> Finding:
    """Errors have the form of the target's: text or JSON, its keys, and how it begins."""
    real = Counter(
        {
            error: n
            for shape in contract.results
            for error, n in ((one.text, one.n) for one in shape.error_texts)
        }
    )
    if not real:
        return Finding("skip", "no error of the target's tools was seen")
    forms = {error_form(text) for text in real}
    told = [
        answer
        for episode in [*oracle_episodes(subject), *messy_episodes(subject)]
        for _, answer, is_error in answered_calls(episode)
        if is_error
    ]
    if not told:
        return Finding("skip", "no call was answered by an error")
    foreign = Counter(answer[:80] for answer in told if error_form(answer) not in forms)
    value, bound = foreign.total() / len(told), f"<= {subject.rules.max_error_distance}"
    apart = fmean(min(_word_distance(answer, text) for text in real) for answer in told)
    words = f"words differ from the nearest real error by {apart:.2f} on average"
    if foreign:
        like = next(iter(real))
        words = f"{foreign.most_common(1)[0][0]!r} is not like {like[:80]!r}; {words}"
    passed = value <= subject.rules.max_error_distance
    return Finding("pass" if passed else "fail", words, value, len(told), bound)


def error_form(text: str) -> tuple[str, ...]:
    """Return the form of an error: JSON with its keys, or text with the word before its colon.

    >>> error_form('{"error": "no such loan"}'), error_form("Error: no such loan"), error_form("no such loan")
    (('json', 'error'), ('text', 'error:'), ('text', ''))
    """
    value = parsed(text)
    if isinstance(value, dict):
        return ("json", *sorted(value))
    match = re.match(r"\s*(\w+:)\s", text)
    return ("text", match.group(1).lower() if match else "")


def _word_distance(one: str, other: str) -> float:
    a, b = (set(re.findall(r"[a-z]+", text.lower())) for text in (one, other))
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


ERROR_CHECKS = (AuditCheck("trace.fidelity.error_shape", "fidelity", error_shape, ("semantic.oracle_max",)),)


# Whether the tools are the target's, difference by difference.


SHOWN = 5


def tools_equal(subject: Subject) -> Finding:
    """The tools are the target's: names, descriptions, parameters, types and required ones, in any order."""
    if subject.contract is None:
        return Finding("skip", NO_CONTRACT)
    wanted = {tool.name: tool.openai()["function"] for tool in subject.contract.tools}
    given = {tool["function"]["name"]: tool["function"] for tool in subject.probe.tools()}
    found = list(differences(wanted, given))
    bound = f"equal to the {len(wanted)} tools of '{subject.contract.target}'"
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        return Finding("fail", "; ".join(found[:SHOWN]) + more, len(found), len(wanted), bound)
    return Finding("pass", "no difference", 0.0, len(wanted), bound)


def differences(wanted: Mapping[str, Any], given: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield how one set of schemas differs from another, place by place.

    >>> list(differences({"get": {"type": "string"}}, {"get": {"type": "integer"}, "put": {}}))
    ["get.type is 'integer' instead of 'string'", 'adds put']
    """
    for name in wanted:
        here = f"{path}{name}"
        if name not in given:
            yield f"lacks {here}"
        elif isinstance(wanted[name], Mapping) and isinstance(given[name], Mapping):
            yield from differences(wanted[name], given[name], f"{here}.")
        elif not _same(name, wanted[name], given[name]):
            yield f"{here} is {_short(given[name])} instead of {_short(wanted[name])}"
    for name in given:
        if name not in wanted:
            yield f"adds {path}{name}"


def _same(key: str, one: Any, other: Any) -> bool:
    if key in ("required", "enum") and isinstance(one, list) and isinstance(other, list):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return repr(one) == repr(other)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


SCHEMA_CHECKS = (AuditCheck("trace.fidelity.schema", "fidelity", tools_equal, ("runtime.startup",)),)


# Whether episodes are as long as real ones.


Measure = Callable[[Sequence[Turn]], float]


def _characters(role: str) -> Measure:
    """Return how long messages of one role are on average."""

    def measure(turns: Sequence[Turn]) -> float:
        own = [turn.characters for turn in turns if turn.role == role and turn.characters]
        return sum(own) / len(own) if own else 0.0

    return measure


def _messages(role: str) -> Measure:
    return lambda turns: float(sum(turn.role == role and turn.characters > 0 for turn in turns))


MEASURES: dict[str, Measure] = {
    "assistant turns": lambda turns: float(sum(turn.role == "assistant" for turn in turns)),
    "tool calls": lambda turns: float(sum(len(turn.tools) for turn in turns if turn.role == "assistant")),
    "user messages": _messages("user"),
    "characters of a user message": _characters("user"),
    "characters of a result": _characters("tool"),
}


@with_reference
def lengths(subject: Subject, contract: TargetContract) -> Finding:
    """Turns, calls, messages and their lengths are such as real successful trajectories have.

    Each median over the oracle's episodes shall lie where 80 % of the real successes with its changes lie.
    """
    focus = focus_of(subject, contract)
    real = [one.turns for one in real_episodes(contract, focus)]
    if len(real) < MIN_REAL:
        return too_few(len(real), focus)
    ours = [turns_of(one.messages) for one in focus.episodes]
    outside = []
    for name, measure in MEASURES.items():
        spread = spread_of([measure(turns) for turns in real])
        middle = median(measure(turns) for turns in ours)
        if not spread.low <= middle <= spread.high:
            outside.append(f"{name}: {middle:.3g}, real ones {spread.low:.3g} to {spread.high:.3g}")
    value, bound = len(outside) / len(MEASURES), f"<= {subject.rules.max_lengths_outside}"
    evidence = "; ".join(outside) or f"all {len(MEASURES)} medians lie among {len(real)} real episodes'"
    passed = value <= subject.rules.max_lengths_outside
    return Finding("pass" if passed else "fail", evidence, value, len(ours), bound)


_ANSWERS = ("trace.fidelity.result_shape", "trace.fidelity.error_shape")
LENGTH_CHECKS = (
    AuditCheck("trace.fidelity.lengths", "fidelity", lengths, ("semantic.oracle_max",), _ANSWERS),
)


# Whether tools are called in the order in which real successful agents call them.


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


SEQUENCE_CHECKS = (
    AuditCheck("trace.fidelity.tool_ngrams", "fidelity", tool_ngrams, ("semantic.oracle_max",)),
)


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
    *SCHEMA_CHECKS,
    *fidelity_results.RESULT_CHECKS,
    *ERROR_CHECKS,
    *SEQUENCE_CHECKS,
    *LENGTH_CHECKS,
    *CLASSIFIER_CHECKS,
)
