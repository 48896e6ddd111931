"""How much of the outcome shows through the blind transcripts, channel by channel.

A classifier is trained to predict success from one channel at a time and scored out of fold. Where enough
tasks have trials of both outcomes, only such trials are compared: how hard a task is then plays no part, and
what is left is a leak, or an honest reaction to what the agent did. Otherwise all pairs of a fold are
compared, and a channel leaks only where its interval lies above the figure of `opening`, which cannot know
the outcome: that much is the difficulty of the tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from trace_assets.diagnosis.leak.channels import channels, shape_features, word_features
from trace_assets.diagnosis.leak.classifier import out_of_fold
from trace_assets.records import LabelLeak, Trajectory, Triage
from trace_assets.statistics.ranking import rank

CHANNELS = ("opening", "replies", "closing", "results", "shape", "withheld")
JUDGED = ("replies", "closing")
"""What is shown beside the agent's behaviour and should not know the outcome. Results and lengths follow what
the agent did, `opening` comes before it, and `withheld` is not shown: they are there for comparison."""
LEAST_PAIRS, LEAST_TASKS = 40, 15
"""From how many pairs, and tasks with both outcomes, trials are compared within tasks only."""
MOST = 2000
"""Trajectories a target that are read; more would say the same more slowly."""


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
