"""What is taught, chosen in another way than the diagnosis does: by failures alone, by shuffled labels."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.diagnosis.test_selection import study as labelled
from tests.tournament.test_spending import adapter, episodes
from trace_assets.records import (
    Adapter,
    Capability,
    Contrast,
    Evaluation,
    Label,
    SelectedCapability,
    Triage,
)
from trace_assets.resources.analysts import Evidence
from trace_assets.settings.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.tournament.arms import ARMS, placebo
from trace_assets.tournament.arms.protocol import PlayedWorld

PLACE = "trace_assets.tournament.arms.placebo.play_home"


def world(folder: Path, kept: tuple[str, ...], others: tuple[str, ...]) -> PlayedWorld:
    """A finished world of target `t` whose base model passes 3 of its tests and whose own arm passes 8."""
    study = Study.of(Home.open(folder / "home"), load_settings(None, ['targets.name="t"'], environment={}))
    vars(study)["target"] = type("Target", (), {"name": "t", "version": "1"})()
    names = (*kept, *others)
    study.store.write(
        [
            SelectedCapability(
                capability_id=name,
                target="t",
                name=name,
                kept=name in kept,
                rank=place,
                reason="r",
                marginal_coverage=None,
            )
            for place, name in enumerate(names, start=1)
        ],
        SelectedCapability,
    )
    study.store.write(
        [
            Capability(capability_id=name, target="t", name=name, description="d", analyst="x")
            for name in names
        ],
        Capability,
    )
    study.store.write(episodes("test", {"base": 3, "routed": 8}), Evaluation, "test")
    return PlayedWorld(1, study, ())


@pytest.fixture(autouse=True)
def _no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlayedWorld, "open_test_tasks", lambda self, shown: None)
    monkeypatch.setattr(placebo, "_lend_base", lambda world, home: None)


def rated(capability: str, er_failed: float, coverage: float) -> Contrast:
    blank = dict.fromkeys(name for name in Contrast.model_fields if name.endswith(("_low", "_high")))
    counts = dict.fromkeys((name for name in Contrast.model_fields if name.startswith("n_")), 9)
    rates = {"er_passed": 0.1, "gap": 0.1, "p_value": None, "q_value": None, "alpha": None}
    return Contrast.model_validate(
        {
            **blank,
            **counts,
            **rates,
            "capability_id": capability,
            "target": "t",
            "er_failed": er_failed,
            "coverage": coverage,
        }
    )


def test_failures_alone_choose_by_error_rate_then_coverage(tmp_path: Path) -> None:
    one = world(tmp_path, ("a", "b"), ("c", "d", "e"))
    one.study.store.write(
        [
            rated("a", 0.5, 0.3),
            rated("b", 0.9, 0.1),
            rated("c", 0.9, 0.2),
            rated("d", 0.2, 0.9),
            rated("e", 0.0, 0.0),
        ],
        Contrast,
    )
    assert ARMS["failures_only"].choose(one) == ["c", "b"]  # type: ignore[attr-defined]


def test_a_choice_that_is_the_diagnosiss_is_the_worlds_own_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = world(tmp_path, ("a",), ("c",))
    one.study.store.write([rated("a", 0.9, 0.3), rated("c", 0.5, 0.9)], Contrast)
    one.study.store.write([adapter("a", "capability", 77)], Adapter, "a")
    monkeypatch.setattr(PLACE, lambda *_: pytest.fail("nothing is played again"))
    made = ARMS["failures_only"].play(one, tmp_path / "arm")
    assert [row.arm for row in made.rows] == ["failures_only"] * 8
    assert made.note == "chose what the diagnosis kept"
    assert {row["kind"]: row["marginal"] for row in made.spent}["training"] == 77


def with_labels(one: PlayedWorld) -> PlayedWorld:
    """Every failure lacks `a`, and few successes do: nothing could be clearer."""
    labels, triage = labelled({"a": [*range(0, 60), 100]})
    one.study.store.write(triage, Triage)
    one.study.store.write(labels, Label)
    return one


def test_shuffled_labels_choose_nothing_where_the_true_ones_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = with_labels(world(tmp_path, ("a",), ()))
    arm = ARMS["shuffled_labels"]
    monkeypatch.setattr(PLACE, lambda *_: pytest.fail("there is nothing to be played"))
    made = arm.play(one, tmp_path / "arm")
    assert [row.arm for row in made.rows] == ["shuffled_labels"] * 3, "it stands at the base model"
    assert made.note == "chose nothing, so it is the base model"
    assert {row["kind"]: row["marginal"] for row in made.spent}["training"] == 0
    # Without the shuffle the same steps keep what the study shows.
    monkeypatch.setattr(placebo, "shuffled", lambda evidence, lots: evidence)
    assert arm.choose(one) == ["a"]  # type: ignore[attr-defined]


def test_labels_are_shuffled_whole_and_within_a_policy() -> None:
    labels, triage = labelled({"a": range(0, 60), "b": range(0, 30)})
    triage = [row.model_copy(update={"policy": "xy"[n % 2]}) for n, row in enumerate(triage)]
    who = {row.trajectory_id: row.policy for row in triage}
    before = Evidence("t", [], labels, triage)
    after = placebo.shuffled(before, random.Random(1))

    def patterns(one: Evidence) -> tuple[dict[str, str], Counter[tuple[str, str]]]:
        own: dict[str, str] = {}
        for row in sorted(one.labels, key=lambda row: row.capability_id):
            own[row.trajectory_id] = own.get(row.trajectory_id, "") + row.label[0]
        return own, Counter((who[name], pattern) for name, pattern in own.items())

    (old, counted), (new, counted_after) = patterns(before), patterns(after)
    assert counted == counted_after and old != new and after.triage == before.triage


def test_without_anything_kept_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    one = world(tmp_path, (), ("c",))
    for name in ("failures_only", "shuffled_labels"):
        assert "kept no capability" in ARMS[name].refusal(one)
