"""Routed to one adapter, composed, or trained on the target itself, where tasks lack several skills at once.

    trace demo --desk b                                  # base model, trajectories and labels
    nice python -m tests.bench.composition HOME OUT --seed 0

Adapters are trained on the desk's own cases of one skill each: perfect environments, which favours them. The
base model, labels, router, sums and episodes are the product's. Prints a table, and writes `OUT/rows.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from trace_assets.evaluation.arms import Composed, evaluate, evaluate_sums, oracle_choice
from trace_assets.records import Adapter, Evaluation, Label, Split, Task, Triage
from trace_assets.resources.policy import base_checkpoint, base_folder
from trace_assets.routing.classifier import fit_classifier
from trace_assets.routing.scores import examples_of_trials, routing_trials
from trace_assets.routing.sets import candidate_sets, members_of, set_name, sets_of, within
from trace_assets.settings import EvaluationSection, Targets, Training
from trace_assets.stats.paired import compare
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.targets.embedded.desk import Skill
from trace_assets.targets.embedded.generator import stream
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.training.composition import compose_adapters

SKILLS: dict[Skill, str] = {
    "cancel": "embedded-write_without_read-cancel_order-get_order",
    "multi": "embedded-object_untouched-order",
    "window": "embedded-write_against_state-refund_item-window-closed",
}
"""Skill to the capability that the diagnosis finds for it."""


class OneSkill(EmbeddedTarget):
    """The desk with tasks of one skill alone: what a perfect environment for it would be."""

    def __init__(self, skill: Skill, seed: int) -> None:
        super().__init__(Targets(discovery_tasks=1000, validation_tasks=140, test_tasks=1))
        self._skill, self._drawn_by = skill, f"alone-{skill}-{seed}"

    @property
    def version(self) -> str:
        """Of the desk, and of what is drawn."""
        return text_version(super().version, self._drawn_by)

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return tasks of the skill."""
        like = super().tasks(split)
        drawn = islice(stream(self._drawn_by, split, {self._skill: 1}), len(like))
        return tuple(
            task.model_copy(
                update={
                    "task_id": f"{task.task_id}-{self._skill}",
                    "instruction": one.text,
                    "tags": (one.skill,),
                    "payload": one.case().payload(),
                }
            )
            for task, one in zip(like, drawn, strict=True)
        )


def train(name: str, target: EmbeddedTarget, study: Study, out: Path, iterations: int, seed: int) -> Adapter:
    """Train one adapter, or look up the one that was."""
    from trace_assets.training.grpo import train_adapter

    began = time.process_time()
    section = Training(
        iterations=iterations,
        seed=seed,
        validate_every=15,
        validation_seeds=64,
        validation_episodes=64,
        save_every=1000,
    )
    adapter, _ = train_adapter(
        name=name,
        kind="mixed" if name == "mixed" else "capability",
        capability_id=None if name == "mixed" else name,
        environment_id=None,
        target=target,
        base_dir=base_folder(study),
        base_id=base_checkpoint(study).base_id,
        section=section,
        folder=out / "adapters" / name,
    )
    rates = f"{adapter.validation_before:.2f} -> {adapter.validation_after:.2f}"
    print(
        f"{name}: {rates}, {adapter.rollouts} rollouts, {time.process_time() - began:.0f} CPU s", flush=True
    )
    return adapter


def counts(rows: Sequence[Evaluation], arm: str, skill: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Return passed and judged trials, by task in a fixed order."""
    own = [row for row in rows if row.arm == arm and row.success is not None and skill in ("", row.skill)]
    tasks = {name: place for place, name in enumerate(sorted({row.task_id for row in own}))}
    found = np.zeros((2, len(tasks)), dtype=np.int64)
    for row in own:
        found[:, tasks[row.task_id]] += (int(row.success or 0), 1)
    return found[0], found[1]


def main() -> None:
    """Train, route, add up, play, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=15, help="a skill; three times as many for direct")
    parser.add_argument("--tasks", type=int, default=300)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    desk = Targets(options={"desk": "b"}, test_tasks=given.tasks)
    study = Study.open(given.home, overrides=["targets.options.desk=b"], writable=False)
    base, target = base_folder(study), EmbeddedTarget(desk)
    folders: dict[str, Path] = {}
    for skill, name in SKILLS.items():
        train(name, OneSkill(skill, given.seed), study, given.out, given.iterations, given.seed)
        folders[name] = given.out / "adapters" / name
    train("mixed", target, study, given.out, given.iterations * len(SKILLS), given.seed)
    trials = routing_trials(
        [task for task in study.store.read(Task) if task.split == "discovery"],
        study.store.read(Label),
        study.store.read(Triage),
        list(folders),
    )
    choices = sorted(folders)
    section = study.settings.routing
    router = fit_classifier(
        base, examples_of_trials(trials, choices, section.unneeded_cost), choices, section
    )
    tasks = list(target.tasks("test"))
    routes = router.route(tasks)
    wanted = sets_of(routes, section.unneeded_cost)
    every = {*candidate_sets(choices), *(tuple(sorted(one)) for one in wanted.values() if len(one) > 1)}
    sums = {
        set_name(one): compose_adapters(base, {name: folders[name] for name in one}, given.out / "sums")[1]
        for one in every
    }
    playing = EvaluationSection(trials=2, seed=given.seed)
    validation, _ = evaluate(
        target, base, folders, None, None, playing, given.out / "journal" / "v", 1, split="validation"
    )
    together, _ = evaluate_sums(target, base, sums, playing, given.out / "journal" / "s", 1)
    arms: Mapping[str, Mapping[str, str]] = {
        "composed": {name: within(one, sums) for name, one in wanted.items()},
        "oracle_composed": oracle_choice([*validation, *together], tasks),
        "sum": dict.fromkeys((task.task_id for task in tasks), set_name(choices)),
    }
    rows, _ = evaluate(
        target,
        base,
        {**folders, "mixed": given.out / "adapters" / "mixed"},
        routes,
        oracle_choice(validation, tasks),
        playing,
        given.out / "journal" / "t",
        1,
        composed=Composed(sums, arms),
    )
    sizes = [len(members_of(choice)) for choice in arms["composed"].values()]
    print("adapters a task by the router:", {size: sizes.count(size) for size in sorted(set(sizes))})
    for arm in sorted({row.arm for row in rows}):
        found = compare(*counts(rows, arm), *counts(rows, "mixed_grpo"), resamples=2000, seed=0)
        one, gap = found.arm, found.delta
        by_skill = {
            skill: round(float(np.divide(*map(np.sum, counts(rows, arm, skill)))), 3)
            for skill in sorted({row.skill for row in rows})
        }
        print(
            f"{arm:65} {100 * (one.value or 0):5.1f}  minus direct {100 * (gap.value or 0):+5.1f} "
            f"[{100 * (gap.low or 0):+.1f}, {100 * (gap.high or 0):+.1f}]  n={found.n_tasks}  {by_skill}"
        )
    given.out.joinpath("rows.json").write_text(json.dumps([row.model_dump(mode="json") for row in rows]))
    print(f"{time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main()
