"""The fitted router: a logistic layer on the base model's hidden states of the first user message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Route, Task
from trace_assets.routing.label_logits import POOLING, HiddenStates, base_fingerprint
from trace_assets.routing.logistic import Logistic, fit_calibrated
from trace_assets.routing.router import RoutingExample, all_choices, opening, to_routes
from trace_assets.settings import Routing
from trace_assets.store.files import replacing_folder

NAME = "classifier"


@dataclass
class ClassifierRouter:
    """A router that was fitted on discovery labels.

    Attributes:
        base_dir: Model folder whose hidden states it reads.
        base: Fingerprint of that folder; another model's hidden states mean something else.
        choices: Adapter names, then `none`.
        classes: The choices that had an example, in the layer's order. The others get probability 0.
        layer: None when there is nothing to tell apart: then the only class is always chosen.
        unneeded_cost: What an unneeded adapter costs relative to a missing one; weighs `none` down.
        n_examples: Choice -> examples that call for it.
        held_out: For each example, the route of a layer that never saw it.
    """

    base_dir: Path
    base: str
    choices: tuple[str, ...]
    classes: tuple[str, ...]
    layer: Logistic | None
    unneeded_cost: float
    n_examples: dict[str, int]
    held_out: tuple[Route, ...] = ()
    _states: HiddenStates | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """`classifier`."""
        return NAME

    @property
    def version(self) -> str:
        """Content hash of all that decides the probabilities."""
        digest = hashlib.sha256(
            json.dumps([self.base, POOLING, self.choices, self.classes, self.unneeded_cost]).encode()
        )
        for name, array in sorted(_arrays(self.layer).items()):
            digest.update(name.encode() + str(array.shape).encode() + array.astype("<f8").tobytes())
        return digest.hexdigest()[:16]

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return for each text the probability of every choice.

        The layer says how likely the base model is to lack each capability, calibrated; `none` is then
        weighed by `unneeded_cost` and the row normalized, so that the most probable choice is the one with
        the least expected cost.
        """
        if self.layer is None:
            rows = np.ones((len(texts), 1))
        else:
            rows = self.layer.probabilities(self._hidden().features(texts))
        return self._weighed(rows)

    def route(self, tasks: Sequence[Task]) -> list[Route]:
        """Return one route for each task, in order.

        Raises:
            InputError: A task has no text.
        """
        rows = self.probabilities([opening(task) for task in tasks])
        return to_routes(NAME, [task.task_id for task in tasks], rows)

    def _weighed(self, need: npt.NDArray[np.float64]) -> list[dict[str, float]]:
        costs = np.array([self.unneeded_cost if name == NO_ADAPTER else 1.0 for name in self.classes])
        rows = need * costs / (need * costs).sum(axis=1, keepdims=True)
        known = [dict(zip(self.classes, row.tolist(), strict=True)) for row in rows]
        return [{choice: row.get(choice, 0.0) for choice in self.choices} for row in known]

    def _hidden(self) -> HiddenStates:
        if self._states is None:
            self._states = HiddenStates(self.base_dir)
        return self._states

    def save(self, folder: Path) -> None:
        """Write `weights.npz` and `router.json` into a folder, which is replaced as a whole."""
        card = {
            "router": NAME,
            "version": self.version,
            "base": self.base,
            "pooling": POOLING,
            "choices": self.choices,
            "classes": self.classes,
            "unneeded_cost": self.unneeded_cost,
            "n_examples": self.n_examples,
            "held_out": [route.model_dump(mode="json") for route in self.held_out],
        }
        with replacing_folder(folder) as building:
            np.savez(building / "weights.npz", **_arrays(self.layer))  # type: ignore[arg-type]
            (building / "router.json").write_text(
                json.dumps(card, indent=1, sort_keys=True), encoding="utf-8"
            )


def _arrays(layer: Logistic | None) -> dict[str, npt.NDArray[np.float64]]:
    if layer is None:
        return {}
    numbers = np.array([layer.temperature, layer.penalty])
    return {
        "mean": layer.mean,
        "scale": layer.scale,
        "weights": layer.weights,
        "bias": layer.bias,
        "temperature_penalty": numbers,
    }


def fit_classifier(
    base_dir: Path, examples: Sequence[RoutingExample], choices: Sequence[str], section: Routing
) -> ClassifierRouter:
    """Fit a router on examples from discovery labels.

    A multinomial logistic layer on pooled hidden states learns from the examples' shares how likely a task
    with such a text is to lack each capability. The L2 penalty is chosen by cross-validation, rows with the
    same text in one fold, and the temperature is fitted on the held-out folds. With fewer than two classes
    among the examples (no adapter, or nothing that needs one) the router always makes the one choice, `none`
    when there are no examples, and no model is loaded.

    Args:
        base_dir: Hugging Face folder of the base model.
        examples: One a discovery task; see `trace_assets.routing.router`.
        choices: Names of the usable adapters, none included; `none` is added where it is not named.
        section: The routing settings.

    Raises:
        InputError: An example's choice is not among the choices, or the folder is not a model's.
    """
    names = all_choices(choices)
    strange = sorted(
        {name for example in examples for name in (example.choice, *example.need())} - set(names)
    )
    if strange:
        raise InputError(
            f"routing examples call for '{strange[0]}', which has no adapter; "
            f"make the examples with the usable adapters only ({', '.join(names)})."
        )
    need = np.array([[example.need().get(name, 0.0) for name in names] for example in examples])
    classes = tuple(name for name, column in zip(names, need.T, strict=False) if column.any()) or (
        NO_ADAPTER,
    )
    router = ClassifierRouter(
        base_dir=base_dir,
        base=base_fingerprint(base_dir),
        choices=names,
        classes=classes,
        layer=None,
        unneeded_cost=section.unneeded_cost,
        n_examples={name: sum(example.choice == name for example in examples) for name in names},
    )
    rows: npt.NDArray[np.float64] | None = np.ones((len(examples), 1))
    if len(classes) > 1:
        texts = [example.text for example in examples]
        targets = need[:, [names.index(name) for name in classes]]
        targets /= targets.sum(axis=1, keepdims=True)
        router.layer, rows = fit_calibrated(router._hidden().features(texts), targets, texts, section.seed)
    if rows is not None:
        task_ids = [example.task_id for example in examples]
        router.held_out = tuple(to_routes(NAME, task_ids, router._weighed(rows)))
    return router


def load_classifier(folder: Path, base_dir: Path) -> ClassifierRouter:
    """Load a router that was saved.

    Args:
        folder: Where `ClassifierRouter.save` wrote it.
        base_dir: The base model's folder, the same model that it was fitted on.

    Raises:
        InputError: The folder holds no whole router, or the base model is another one.
    """
    try:
        card = json.loads((folder / "router.json").read_text(encoding="utf-8"))
        with np.load(folder / "weights.npz", allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name], dtype=np.float64) for name in file.files}
        layer = None
        if arrays:
            temperature, penalty = arrays.pop("temperature_penalty").tolist()
            layer = Logistic(**arrays, temperature=temperature, penalty=penalty)
        router = ClassifierRouter(
            base_dir=base_dir,
            base=card["base"],
            choices=tuple(card["choices"]),
            classes=tuple(card["classes"]),
            layer=layer,
            unneeded_cost=float(card["unneeded_cost"]),
            n_examples=dict(card["n_examples"]),
            held_out=tuple(Route.model_validate(row) for row in card["held_out"]),
        )
        whole = router.version == card["version"] and card["pooling"] == POOLING
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise InputError(f"there is no whole router in '{folder}' ({error}); fit it again.") from error
    if not whole:
        raise InputError(
            f"the router in '{folder}' is not the one its card describes, or was fitted by another version "
            "of the program; fit it again."
        )
    found = base_fingerprint(base_dir)
    if found != router.base:
        raise InputError(
            f"the router in '{folder}' was fitted on base model {router.base}, not on {found} "
            f"in '{base_dir}'; fit it again on this model."
        )
    return router
