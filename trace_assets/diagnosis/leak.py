"""The leak meter: can the outcome be told from what a labeller was shown, and did its labels follow it?

Told from what was shown beside the agent's own behaviour; and from contrasts without a single lacking
success.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.llm.transcript import redact
from trace_assets.records import Contrast, Label, LabelLeak, Trajectory, Triage
from trace_assets.stats.ranking import rank

# How much of the outcome shows through the blind transcripts, channel by channel.


CHANNELS = ("opening", "replies", "closing", "results", "shape", "withheld")
JUDGED = ("replies", "closing")
"""What is shown beside the agent's behaviour and should not know the outcome. Results and lengths follow what
the agent did, `opening` comes before it, and `withheld` is not shown: they are there for comparison."""
LEAST_PAIRS, LEAST_TASKS = 40, 15
"""From how many pairs, and tasks with both outcomes, trials are compared within tasks only."""
MOST = 2000
"""Trajectories a target that are read; more would say the same more slowly."""
DETECTORS = "detectors"
"""Labeller whose code is handed trajectories without their outcome: it cannot follow what it does not see."""
MOST_NAMED = 5
EMPTY_RELEVANT = 10
"""Relevant successes from which an ER+ of exactly 0 is suspicious."""


def measure_leak(
    trajectories: Sequence[Trajectory], triage: Sequence[Triage], seed: int = 0
) -> list[LabelLeak]:
    """Measure every channel of one target.

    Args:
        trajectories: Of one target; only their messages are used.
        triage: Outcomes; only successes and failures put down to the agent count.
        seed: Of folds and resamples.

    Returns:
        One row a channel; `auc` is None where there is nothing to tell apart.
    """
    outcome = {
        row.trajectory_id: row.outcome == "passed"
        for row in triage
        if row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent")
    }
    own = sorted(
        (one for one in trajectories if one.trajectory_id in outcome), key=lambda one: one.trajectory_id
    )
    if len(own) > MOST:
        places = np.random.default_rng(seed).choice(len(own), MOST, replace=False)
        own = [own[place] for place in sorted(places)]
    if not own:
        return []
    passed = np.array([outcome[one.trajectory_id] for one in own])
    tasks = [one.task_id for one in own]
    read = [channels(one) for one in own]
    within = _within(tasks, passed.tolist())
    rows: list[LabelLeak] = []
    for name in CHANNELS:
        if name == "shape":
            features = shape_features([one.shape for one in read])
        else:
            features = word_features([getattr(one, name) for one in read])
        telling = bool(features.size) and bool((features.std(axis=0) > 0).any())
        scores, fold = out_of_fold(features, passed, tasks, seed)
        strata = tasks if within else fold.tolist()
        result = rank(scores, passed, strata, tasks, seed=seed)
        auc = result.auc
        difficulty = rows[0].auc if rows and not within else None
        rows.append(
            LabelLeak(
                target=own[0].target,
                channel=name,
                auc=auc.value if telling else None,
                auc_low=auc.low if telling else None,
                auc_high=auc.high if telling else None,
                within_task=within,
                n_pairs=result.n_pairs,
                n_passed=int(passed.sum()),
                n_failed=int((~passed).sum()),
                n_tasks=len(set(tasks)),
                judged=name in JUDGED,
                leaks=telling and auc.low is not None and auc.low > max(0.5, difficulty or 0.5),
            )
        )
    return rows


def _within(tasks: Sequence[str], passed: Sequence[bool]) -> bool:
    """Tell whether enough tasks have trials of both outcomes."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for task, outcome in zip(tasks, passed, strict=True):
        counts[task][outcome] += 1
    pairs = [failed * won for failed, won in counts.values() if failed and won]
    return sum(pairs) >= LEAST_PAIRS and len(pairs) >= LEAST_TASKS


# What a labeller is shown beside the agent's own behaviour, by channel, as words and as numbers.


MOST_WORDS = 200
"""Features of a channel: its most common words."""
LEAST_TRAJECTORIES = 3
"""A word in fewer trajectories than this is no feature."""

_WORD = re.compile(r"[^\W\d_]{2,}|\d")
_SHAPE = (
    *("messages", "user_messages", "results", "errors"),
    *("user_characters", "result_characters", "longest_result"),
)


@dataclass(frozen=True)
class Channels:
    """One trajectory's channels.

    Attributes:
        opening: Said before the agent's first message that answers anything: the task. It cannot know the
            outcome, and shows how much of the outcome is the task's difficulty.
        replies: What the user said after that and the labeller saw.
        closing: What the labeller saw after the agent's last message.
        results: What tools answered. It follows the agent's calls, so that it may tell the outcome honestly.
        withheld: What the redaction took away.
        shape: Counts and lengths, in the order of `_SHAPE`. They follow the agent's behaviour as well.
    """

    opening: str
    replies: str
    closing: str
    results: str
    withheld: str
    shape: tuple[int, ...]


def channels(trajectory: Trajectory) -> Channels:
    """Divide what is shown of a trajectory into channels; what the agent wrote is in none of them."""
    redacted = redact(trajectory.messages)
    agent = [index for index, one in redacted.messages if one.role == "assistant"]
    end = len(trajectory.messages)
    asked = next((index for index, one in redacted.messages if one.role == "user"), end)
    first = next((index for index in agent if index > asked), end)  # many agents greet before they are asked
    last = agent[-1] if agent else end
    said: dict[str, list[str]] = {"opening": [], "replies": [], "closing": [], "results": []}
    users: list[str] = []
    for index, message in redacted.messages:
        text = message.content or ""
        if message.role == "tool":
            said["results"].append(text)
        elif message.role != "assistant":
            users += [text] if message.role == "user" else []
            said["opening" if index < first else "replies"].append(text)
        if index > last:
            said["closing"].append(text)
    errors = sum(one.is_error for _, one in redacted.messages)
    shape = (
        *(len(redacted.messages), len(users), len(said["results"]), errors),
        *(sum(map(len, users)), sum(map(len, said["results"])), max(map(len, said["results"]), default=0)),
    )
    return Channels(
        **{name: "\n".join(texts) for name, texts in said.items()},
        withheld="\n".join(text for _, text in redacted.withheld),
        shape=shape,
    )


def word_features(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return which of the common words each text has, shape `(texts, words)`; the outcome has no say in it.

    >>> word_features(["yes thanks", "yes no", "yes thanks", "thanks"]).shape
    (4, 2)
    """
    bags = [set(_WORD.findall(text.lower())) for text in texts]
    counts = Counter(word for bag in bags for word in bag)
    common = sorted(
        (word for word, count in counts.items() if count >= LEAST_TRAJECTORIES),
        key=lambda word: (-counts[word], word),
    )[:MOST_WORDS]
    return np.array([[word in bag for word in common] for bag in bags], dtype=np.float64).reshape(
        len(texts), len(common)
    )


def shape_features(shapes: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
    """Return logarithms of counts and lengths, shape `(trajectories, 7)`."""
    return np.log1p(np.array(shapes, dtype=np.float64).reshape(len(shapes), len(_SHAPE)))


# A small logistic regression whose scores are all out of fold: as strong a reader as the meter needs.


Floats = NDArray[np.float64]

FOLDS = 5
PENALTY = 0.05
"""L2 penalty, on all weights but the intercept, with standardized features and the mean log-loss."""


def fit_logistic(features: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Fit a logistic regression by iteratively reweighted least squares.

    Args:
        features: Shape `(n, d)`, standardized.
        positive: Shape `(n,)`, both values among them.

    Returns:
        Weights, shape `(d + 1,)`, the intercept last.

    >>> weights = fit_logistic(np.array([[-1.0], [1.0]] * 8), np.array([False, True] * 8))
    >>> bool(weights[0] > 0.5), bool(abs(weights[1]) < 1e-6)
    (True, True)
    """
    x = np.hstack([features, np.ones((len(features), 1))])
    ridge = np.full(x.shape[1], PENALTY * len(x))
    ridge[-1] = 1e-9
    y, weights = positive.astype(np.float64), np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (p - y) + ridge * weights
        curvature = np.maximum(p * (1 - p), 1e-6)
        step = np.linalg.solve((x * curvature[:, None]).T @ x + np.diag(ridge + 1e-9), gradient)
        weights = weights - step
        if float(np.abs(step).max()) < 1e-6:
            break
    return weights


def out_of_fold(
    features: Floats, positive: NDArray[np.bool_], groups: Sequence[Hashable], seed: int = 0
) -> tuple[Floats, NDArray[np.int64]]:
    """Score every row with a model that saw no row of its group.

    Args:
        features: Shape `(n, d)`.
        positive: Shape `(n,)`.
        groups: Rows of one group, trials of a task for instance, share a fold.
        seed: Deals the groups.

    Returns:
        Scores and folds, both of shape `(n,)`. Scores of different folds are not comparable. A fold whose
        complement is one-sided scores 0 throughout.
    """
    names = sorted({str(one) for one in groups})
    order = np.random.default_rng(seed).permutation(len(names))
    dealt = {names[place]: number % FOLDS for number, place in enumerate(order)}
    fold = np.array([dealt[str(one)] for one in groups], dtype=np.int64)
    scores = np.zeros(len(positive))
    for number in range(FOLDS):
        held, rest = fold == number, fold != number
        if not held.any() or positive[rest].all() or not positive[rest].any():
            continue
        mean, scale = features[rest].mean(axis=0), features[rest].std(axis=0)
        varies = scale > 1e-9
        if not varies.any():
            continue
        seen = (features[:, varies] - mean[varies]) / scale[varies]
        weights = fit_logistic(seen[rest], positive[rest])
        scores[held] = seen[held] @ weights[:-1] + weights[-1]
    return scores, fold


def empty_contrast(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the capabilities whose labels may follow the outcome, so that there is no contrast at all.

    Either no success lacks it although ten or more needed it, or, on ten or more trajectories that needed it,
    every failure lacks it and every success has it. Every lack may be fatal; but the published label runs
    of the reference are like this (42 LACKING and 0 PRESENT on failures, 0 and 7 on successes), whose
    labeller saw the reward: a person should look.
    """
    return [
        row
        for row in contrasts
        if row.er_passed == 0
        and (
            row.n_passed_relevant >= EMPTY_RELEVANT
            or (row.er_failed == 1 and row.n_failed_relevant + row.n_passed_relevant >= EMPTY_RELEVANT)
        )
    ]


def unread_labels(contrasts: Sequence[Contrast], labels: Iterable[Label]) -> frozenset[str]:
    """Return what has an empty contrast by the labels of a model that finds no lack in any success.

    An ER+ of exactly 0 with ten or more relevant successes has two readings: the lack is always fatal, or
    the labeller inferred the outcome and called every success PRESENT. Detectors are deterministic predicates
    over trajectories from which the outcome was removed, so for them only the first reading is left. A model
    can guess the outcome from the conversation and follow it. Then it calls every success in order, whatever
    it is asked about, as the published labels of the reference do. So its whole label matrix is looked at:
    where it never gives LACKING to a success, though successes needed two of its candidates or more, what
    it would keep waits until a person has read some labels. One candidate alone cannot tell.

    Honest labels are like this too where lacks are fatal and runs are few, so all else goes on: two studies
    of 30 runs each, labelled blind, were stopped by an earlier form of this.
    """
    by_model, asked, lacks = _of_models(contrasts, labels)
    empty = {row.capability_id for row in empty_contrast(contrasts)}
    return frozenset(empty & by_model) if not lacks and asked > 1 else frozenset()


def unread_words(row: Contrast) -> str:
    """Say why a candidate of `unread_labels` is not kept."""
    return (
        f"none of the {row.n_passed_relevant} successes that needed it lacks it, and the model that labelled "
        "finds no lack in any success: it may have followed the outcome; read some of its labels "
        "(`trace sql lacking`), then set contrast.accept_empty = true or label with another model"
    )


class OutcomeLeak(NamedTuple):
    """Whether no contrast is empty, and the reason in words."""

    passed: bool
    detail: str


def outcome_leak(
    contrasts: Sequence[Contrast], labels: Sequence[Label], accept_empty: bool = False
) -> OutcomeLeak:
    """Say of candidates whose contrast is empty who labelled them, and what comes of it.

    What says no more than how runs ended is held back by itself, see `restates_outcome`.

    Args:
        contrasts: The candidates.
        labels: Their labels; only who gave them is looked at.
        accept_empty: A person has read the labels and takes the lack to be always fatal; the sentence then
            says that it was overridden.
    """
    empty = {row.capability_id for row in empty_contrast(contrasts)}
    if not empty:
        return OutcomeLeak(True, f"none of {len(contrasts)} candidates is lacking in failures alone.")
    by_model, asked, lacks = _of_models(contrasts, labels)
    guessed = empty & by_model
    found = sorted(guessed or empty)
    named = ", ".join(found[:MOST_NAMED]) + (", ..." if len(found) > MOST_NAMED else "")
    what = (
        f"{len(found)} of {len(contrasts)} candidates are never lacking in a success although "
        f"{EMPTY_RELEVANT} or more trajectories needed them: {named}."
    )
    if guessed and accept_empty:
        said = "A model labelled them and may have followed the outcome; overridden by contrast.accept_empty."
    elif guessed and not lacks and asked > 1:
        said = (
            "A model labelled them, and it gives LACKING to no success at all: it may have followed the "
            "outcome, so none of them is kept. Read some of the labels with `trace sql lacking` and the "
            "figure of `label_leak`; set contrast.accept_empty = true when these lacks are always fatal, or "
            "label with another model."
        )
    elif guessed:
        looked = (
            "it gives LACKING to successes elsewhere, so it does not follow the outcome"
            if lacks
            else "of one candidate alone it cannot be told whether it followed the outcome"
        )
        said = (
            f"A model labelled them; {looked}. Read some of the labels with `trace sql lacking` before you "
            "teach one."
        )
    else:
        said = (
            "Detectors labelled them, blind to the outcome, so it seems that the lack is always fatal; read "
            "some of the evidence with `trace sql lacking`."
        )
    return OutcomeLeak(False, f"{what} {said}")


def _of_models(contrasts: Sequence[Contrast], labels: Iterable[Label]) -> tuple[set[str], int, int]:
    """Return what a model labelled, how many of these successes needed, and how often it finds one lacking.

    What detectors labelled as well says nothing of the model.
    """
    by_model, by_detectors = set[str](), set[str]()
    for label in labels:
        (by_detectors if label.labeller == DETECTORS else by_model).add(label.capability_id)
    asked = [row for row in contrasts if row.capability_id in by_model and row.n_passed_relevant]
    lacks = sum(row.n_passed_lacking for row in asked if row.capability_id not in by_detectors)
    return by_model, len(asked), lacks
