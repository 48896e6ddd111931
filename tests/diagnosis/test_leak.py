"""The leak meter sees an outcome that shows, and nothing where nothing shows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from trace_assets.diagnosis.leak import measure_leak, out_of_fold
from trace_assets.diagnosis.triage import triage
from trace_assets.records import LabelLeak, Message, Trajectory

WORDS = ["red", "blue", "green", "tall", "short", "near", "far", "warm", "cold", "loud", "quiet", "early"]


def study(
    tasks: int,
    *,
    tell: float = 0.0,
    hard: bool = False,
    closing: bool = False,
    trials: int = 4,
    seed: int = 0,
) -> dict[str, LabelLeak]:
    """Measure made-up trajectories whose user tells the outcome with some probability.

    Args:
        tasks: How many.
        tell: How often the user's reply goes with the outcome.
        hard: Whether half of the tasks, named so in the opening, mostly fail.
        closing: Whether the telling word comes after the agent's last message.
        trials: Per task.
        seed: Of everything drawn.
    """
    rng = random.Random(seed)
    made = []
    for task in range(tasks):
        difficult = hard and task % 2 == 0
        for trial in range(trials):
            success = rng.random() < (0.15 if difficult else 0.85 if hard else 0.5)
            honest = rng.choice(["fine", "wrong"])
            word = ("fine" if success else "wrong") if rng.random() < tell else honest
            reply = Message(role="user", content=f"{word} {rng.choice(WORDS)} {rng.choice(WORDS)}")
            messages = [
                Message(
                    role="user",
                    content=f"please do a {'hard' if difficult else 'simple'} thing {rng.choice(WORDS)}",
                ),
                Message(role="assistant", content="working"),
                *([] if closing else [reply]),
                Message(role="assistant", content="done"),
                *([reply] if closing else []),
            ]
            made.append(
                Trajectory(
                    trajectory_id=f"{task}-{trial}",
                    task_id=f"x/{task}",
                    target="x",
                    task_batch="b",
                    policy="p",
                    success=success,
                    stop="completed",
                    messages=tuple(messages),
                )
            )
    return {row.channel: row for row in measure_leak(made, triage(made), seed)}


def test_a_user_who_tells_is_seen() -> None:
    row = study(60, tell=0.5)["replies"]
    assert row.leaks
    assert row.auc is not None
    assert row.auc_low is not None
    assert row.auc_high is not None
    assert 0.5 < row.auc_low < row.auc < row.auc_high
    assert row.auc == pytest.approx(0.75, abs=0.1)  # half of the replies are told, the others are a coin


def test_nothing_is_seen_where_nothing_shows() -> None:
    aucs = [study(60, seed=seed)["replies"] for seed in range(20)]
    assert np.mean([row.auc for row in aucs]) == pytest.approx(0.5, abs=0.03)
    assert sum(row.leaks for row in aucs) <= 3  # one in forty each, on either side


def test_a_tasks_difficulty_is_no_leak_where_trials_can_be_compared() -> None:
    rows = study(80, hard=True)
    assert rows["opening"].within_task
    assert not rows["opening"].leaks
    assert not rows["replies"].leaks
    once = study(120, hard=True, trials=1)
    assert not once["opening"].within_task
    assert (once["opening"].auc or 0) > 0.7, "across tasks the opening tells how hard the task is"
    assert not once["opening"].judged


def test_what_is_withheld_tells_and_is_not_shown() -> None:
    rows = study(60, tell=1.0, closing=True)
    assert rows["withheld"].auc == pytest.approx(1.0)
    assert not rows["withheld"].judged
    assert rows["closing"].auc is None
    assert rows["replies"].auc is None


def test_without_outcomes_or_with_one_side_there_is_no_figure() -> None:
    assert measure_leak([], []) == []
    messages = (Message(role="user", content="x"), Message(role="assistant", content="y"))
    one = Trajectory(
        trajectory_id="t",
        task_id="x/1",
        target="x",
        task_batch="b",
        policy="p",
        success=True,
        messages=messages,
    )
    rows = measure_leak([one], triage([one]))
    assert {row.auc for row in rows} == {None}
    assert not any(row.leaks for row in rows)


def test_scores_are_out_of_fold() -> None:
    rng = np.random.default_rng(0)
    noise, outcome = rng.normal(size=(120, 60)), rng.random(120) < 0.5
    scores, fold = out_of_fold(noise, outcome, list(range(120)))
    assert set(fold.tolist()) == set(range(5))
    within = [scores[(fold == f) & outcome].mean() - scores[(fold == f) & ~outcome].mean() for f in range(5)]
    assert (
        abs(float(np.mean(within))) < 0.4
    )  # a model that saw its own rows would tell them apart by far more
    groups = [place // 4 for place in range(120)]
    _, fold = out_of_fold(noise, outcome, groups)
    assert all(
        len({int(fold[place]) for place in range(120) if groups[place] == group}) == 1 for group in range(30)
    )
