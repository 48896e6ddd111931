from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_assets.errors import InputError
from trace_assets.records import Task
from trace_assets.routing.classifier import NAME, ClassifierRouter, fit_classifier, load_classifier
from trace_assets.routing.logistic import Logistic
from trace_assets.routing.router import Router, RoutingExample
from trace_assets.routing.scores import score
from trace_assets.settings import Routing

pytestmark = pytest.mark.train

TEXTS = {
    "cancel": "please cancel order K{n}, thanks",
    "refund": "i want my money back for order K{n}",
    "none": "where is order K{n} now",
}


def examples(counts: dict[str, int]) -> list[RoutingExample]:
    return [
        RoutingExample(f"{choice}/{n}", TEXTS[choice].format(n=n), choice)
        for choice, count in counts.items()
        for n in range(count)
    ]


def tasks(n: int) -> list[Task]:
    return [
        Task(
            task_id=f"{choice}/{i}",
            target="t",
            split="test",
            task_batch="b",
            instruction=text.format(n=900 + i),
        )
        for choice, text in TEXTS.items()
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def router(tiny_folder: Path) -> ClassifierRouter:
    return fit_classifier(
        tiny_folder, examples({"cancel": 12, "refund": 12, "none": 12}), ["cancel", "refund"], Routing()
    )


def test_it_routes_unseen_tasks_to_what_they_need(router: ClassifierRouter) -> None:
    assert isinstance(router, Router)
    asked = tasks(10)
    routes = router.route(asked)
    assert [route.task_id for route in routes] == [task.task_id for task in asked]
    found = score(routes, {task.task_id: task.task_id.split("/")[0] for task in asked})
    assert found.accuracy is not None and found.accuracy > 0.9
    for route in routes:
        assert sum(route.probabilities.values()) == pytest.approx(1)
        assert set(route.probabilities) == {"cancel", "refund", "none"}


def test_held_out_routes_cover_every_example(router: ClassifierRouter) -> None:
    truth = {item.task_id: item.choice for item in examples({"cancel": 12, "refund": 12, "none": 12})}
    found = score(router.held_out, truth, "discovery")
    assert found.n == 36 and found.accuracy is not None and found.accuracy > 0.8


def test_the_probability_of_a_text_does_not_depend_on_its_batch(router: ClassifierRouter) -> None:
    texts = [task.instruction for task in tasks(4)] + ["cancel " * 80]
    together = router.probabilities(texts)
    alone = [router.probabilities([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_saved_and_loaded_it_decides_the_same(
    router: ClassifierRouter, tiny_folder: Path, tmp_path: Path
) -> None:
    router.save(tmp_path / "r")
    router.save(tmp_path / "r")
    again = load_classifier(tmp_path / "r", tiny_folder)
    assert again.version == router.version and again.held_out == router.held_out
    assert again.route(tasks(3)) == router.route(tasks(3))


def test_fitting_twice_gives_the_same_router(router: ClassifierRouter, tiny_folder: Path) -> None:
    rows = examples({"cancel": 12, "refund": 12, "none": 12})
    assert fit_classifier(tiny_folder, rows, ["cancel", "refund"], Routing()).version == router.version


@pytest.mark.parametrize("counts", [{}, {"none": 3}])
def test_without_adapters_everything_goes_to_none(
    tiny_folder: Path, counts: dict[str, int], tmp_path: Path
) -> None:
    router = fit_classifier(tiny_folder, examples(counts), [], Routing())
    router.save(tmp_path / "r")
    for one in (router, load_classifier(tmp_path / "r", tiny_folder)):
        assert {route.choice for route in one.route(tasks(2))} == {"none"}
        assert one.probabilities(["x"]) == [{"none": 1.0}]


def test_one_class_is_always_chosen_and_the_others_have_probability_zero(tiny_folder: Path) -> None:
    router = fit_classifier(tiny_folder, examples({"cancel": 4}), ["cancel"], Routing())
    assert router.probabilities(["x"]) == [{"cancel": 1.0, "none": 0.0}]


def test_an_adapter_without_examples_is_never_chosen(tiny_folder: Path) -> None:
    router = fit_classifier(tiny_folder, examples({"cancel": 6, "none": 6}), ["cancel", "refund"], Routing())
    assert all(row["refund"] == 0.0 for row in router.probabilities([task.instruction for task in tasks(3)]))


def test_a_class_with_two_examples_is_fitted(tiny_folder: Path) -> None:
    router = fit_classifier(tiny_folder, examples({"cancel": 2, "none": 20}), ["cancel"], Routing())
    assert len(router.held_out) == 22
    assert router.probabilities([TEXTS["cancel"].format(n=5)])[0]["cancel"] > 0.2


@pytest.mark.ci
def test_a_need_that_the_text_does_not_decide_goes_to_the_adapter(tiny_folder: Path) -> None:
    # One refund in three lacks the capability, whatever its words: applying the adapter costs less.
    rows = [
        RoutingExample(
            f"{choice}/{n}", TEXTS[choice].format(n=n), "none", {"refund": lacking, "none": 1 - lacking}
        )
        for choice in ("refund", "none")
        for n in range(30)
        for lacking in [float(choice == "refund" and n % 3 == 0)]
    ]
    router = fit_classifier(tiny_folder, rows, ["refund"], Routing())
    for text, choice in ((TEXTS["refund"], "refund"), (TEXTS["none"], "none")):
        row = router.probabilities([text.format(n=901)])[0]
        assert max(row, key=lambda name: row[name]) == choice
    careful = fit_classifier(tiny_folder, rows, ["refund"], Routing(unneeded_cost=1.0))
    assert careful.probabilities([TEXTS["refund"].format(n=901)])[0]["refund"] < 0.5
    assert careful.version != router.version


def test_an_example_for_an_unknown_adapter_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(InputError, match="'refund', which has no adapter"):
        fit_classifier(tiny_folder, examples({"refund": 2}), ["cancel"], Routing())


def test_another_base_model_is_refused(router: ClassifierRouter, tiny_folder: Path, tmp_path: Path) -> None:
    import shutil

    router.save(tmp_path / "r")
    other = tmp_path / "other"
    shutil.copytree(tiny_folder, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-4}))
    with pytest.raises(InputError, match="fitted on base model"):
        load_classifier(tmp_path / "r", other)


class Counted:
    """Features of a text: how often each of two words stands in it."""

    def features(self, texts: list[str]) -> np.ndarray[Any, Any]:
        return np.array([[text.count("cancel"), text.count("refund")] for text in texts], dtype=np.float64)


LAYER = Logistic(
    mean=np.zeros(2),
    scale=np.ones(2),
    weights=np.log(np.array([[4.0, 1.0, 1.0], [1.0, 3.0, 1.0]])),
    bias=np.zeros(3),
    temperature=1.0,
    penalty=0.5,
)


def by_hand(**changes: Any) -> ClassifierRouter:
    given: dict[str, Any] = {
        "base_dir": Path("nowhere"),
        "base": "b1",
        "choices": ("cancel", "refund", "rare", "none"),
        "classes": ("cancel", "refund", "none"),
        "layer": LAYER,
        "unneeded_cost": 0.5,
        "n_examples": {},
    }
    made = ClassifierRouter(**{**given, **changes})
    made._states = Counted()  # type: ignore[assignment]
    return made


def test_probabilities_are_needs_with_none_weighed_by_what_an_adapter_costs_unneeded() -> None:
    """Needs of 4, 1, 1 and of 1, 1, 1; the last one, none, counts half."""
    found = by_hand().probabilities(["cancel", "hello"])
    assert list(found[0]) == ["cancel", "refund", "rare", "none"]
    assert found[0] == pytest.approx({"cancel": 4 / 5.5, "refund": 1 / 5.5, "rare": 0.0, "none": 0.5 / 5.5})
    assert found[1] == pytest.approx({"cancel": 0.4, "refund": 0.4, "rare": 0.0, "none": 0.2})
    (route,) = by_hand().route(
        [Task(task_id="t/1", target="t", split="test", task_batch="b", instruction="refund refund")]
    )
    assert (route.task_id, route.choice, route.router) == ("t/1", "refund", NAME)
    assert route.probabilities["refund"] == pytest.approx(9 / 10.5)


def test_a_version_names_all_that_decides_and_nothing_else() -> None:
    version = by_hand().version
    assert re.fullmatch("[0-9a-f]{16}", version)
    for same in ({"base_dir": Path("elsewhere")}, {"n_examples": {"none": 3}}, {"held_out": ()}):
        assert by_hand(**same).version == version
    others: list[dict[str, Any]] = [
        {"base": "b2"},
        {"choices": ("cancel", "refund", "none")},
        {"classes": ("refund", "cancel", "none")},
        {"unneeded_cost": 0.25},
        {"layer": None},
        *({"layer": replace(LAYER, **{name: getattr(LAYER, name) + 0.5})} for name in vars(LAYER)),
    ]
    versions = {by_hand(**one).version for one in others}
    assert len(versions) == len(others) and version not in versions


def test_the_card_says_what_was_fitted_and_the_opened_model_is_no_part_of_it(tmp_path: Path) -> None:
    made = by_hand(n_examples={"cancel": 2, "none": 1})
    made.save(tmp_path / "r")
    card = json.loads((tmp_path / "r" / "router.json").read_text())
    assert card == {
        "router": NAME,
        "version": made.version,
        "base": "b1",
        "pooling": card["pooling"],
        "choices": ["cancel", "refund", "rare", "none"],
        "classes": ["cancel", "refund", "none"],
        "unneeded_cost": 0.5,
        "n_examples": {"cancel": 2, "none": 1},
        "held_out": [],
    }
    assert "Counted" not in repr(made)


def test_every_example_counts_for_its_choice_and_needs_must_have_an_adapter(tiny_folder: Path) -> None:
    rows = [
        *examples({"cancel": 3, "none": 2}),
        RoutingExample("x", "?", "none", {"refund": 0.5, "none": 0.5}),
    ]
    with pytest.raises(InputError, match=r"call for 'refund'.*\(cancel, none\)"):
        fit_classifier(tiny_folder, rows, ["cancel"], Routing())
    router = fit_classifier(tiny_folder, rows[:5], ["cancel", "refund"], Routing())
    assert router.n_examples == {"cancel": 3, "refund": 0, "none": 2}
    assert router.classes == ("cancel", "none")


def test_the_layer_learns_each_tasks_needs_as_shares_of_the_classes(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a task needs two at once, or part of it has no class of its own."""
    given: list[Any] = []

    def fit(features: Any, targets: Any, texts: list[str], seed: int) -> Any:
        given.extend([features, targets, texts, seed])
        return LAYER, None

    monkeypatch.setattr("trace_assets.routing.classifier.fit_calibrated", fit)
    monkeypatch.setattr(ClassifierRouter, "_hidden", lambda self: Counted())
    rows = [
        RoutingExample("t/1", "cancel", "cancel", {"cancel": 1.0, "none": 1.0}),
        RoutingExample("t/2", "refund refund", "none", {"none": 0.5}),
    ]
    router = fit_classifier(tiny_folder, rows, ["cancel", "refund"], Routing(seed=7))
    features, targets, texts, seed = given
    assert features.tolist() == [[1.0, 0.0], [0.0, 2.0]] and texts == ["cancel", "refund refund"]
    assert targets.tolist() == [[0.5, 0.5], [0.0, 1.0]] and seed == 7
    assert (router.layer, router.classes, router.held_out) == (LAYER, ("cancel", "none"), ())
    assert router.n_examples == {"cancel": 1, "refund": 0, "none": 1}


@pytest.mark.parametrize("name", ["pooling", "version"])
def test_a_card_of_another_version_of_the_program_is_refused(
    router: ClassifierRouter, tiny_folder: Path, tmp_path: Path, name: str
) -> None:
    router.save(tmp_path / "r")
    card = json.loads((tmp_path / "r" / "router.json").read_text())
    (tmp_path / "r" / "router.json").write_text(json.dumps({**card, name: "other"}))
    with pytest.raises(InputError, match="not the one its card describes"):
        load_classifier(tmp_path / "r", tiny_folder)


@pytest.mark.parametrize("damage", ["weights", "card", "missing"])
def test_a_damaged_router_is_refused(
    router: ClassifierRouter, tiny_folder: Path, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "r"
    router.save(folder)
    if damage == "weights":
        with np.load(folder / "weights.npz") as file:
            arrays = {name: file[name] for name in file.files}
        arrays["bias"] = arrays["bias"] + 1
        np.savez(folder / "weights.npz", **arrays)
    elif damage == "card":
        (folder / "router.json").write_text('{"choices": ')
    else:
        (folder / "weights.npz").unlink()
    with pytest.raises(InputError, match="fit it again"):
        load_classifier(folder, tiny_folder)
