"""Ways to put adapters together beside GRPO on the target itself, on the desks that tell them apart.

    trace sync --select tasks --select base_model --select trajectories --set targets.options.desk=b
    trace diagnose --set targets.options.desk=b          # labels; --labels planted does without
    nice python -m tests.bench.composition HOME OUT --desk b --seed 0

Adapters are trained on the desk's own cases of one skill each: perfect environments, which favours them.
`--environments mixed` has the skill of several requests learned on pairs of what conditions decide, as the
desk's tasks have them, in place of pairs that nothing decides. The base model, router, sums, gate, choice and
episodes are the product's. Prints a table, and writes `OUT/rows.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from trace_assets.evaluation.arms import (
    Composed,
    arm_of,
    compose_rows,
    evaluate,
    evaluate_sums,
    oracle_choice,
)
from trace_assets.evaluation.choice import choose, sentence
from trace_assets.records import Adapter, Evaluation, Label, RoutingTrial, Split, Task, TrajectoryHead, Triage
from trace_assets.resources.policy import base_checkpoint, base_folder
from trace_assets.routing.classifier import fit_classifier
from trace_assets.routing.router import candidate_sets, members_of, set_name, sets_of, within
from trace_assets.routing.scores import examples_of_trials, routing_trials
from trace_assets.settings import EvaluationSection, Targets, Training
from trace_assets.stats.paired import compare
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.targets.embedded.demonstrations import LACKING, planted_truth
from trace_assets.targets.embedded.desk import Skill
from trace_assets.targets.embedded.generator import MIXES, stream
from trace_assets.targets.embedded.target import EmbeddedTarget, desk_named
from trace_assets.targets.protocol import Target
from trace_assets.training.composition import compose_adapters
from trace_assets.training.interference import measure, opposed_pairs, pairs_of, unbranched
from trace_assets.training.joint import Teacher, train_consolidated, train_joint, train_sequential
from trace_assets.training.plan import Job

SKILLS: dict[Skill, str] = {
    "cancel": "embedded-write_without_read-cancel_order-get_order",
    "multi": "embedded-object_untouched-order",
    "window": "embedded-write_against_state-refund_item-window-closed",
}
"""Skill to the capability that the diagnosis of desk `b` finds for it."""


class OneSkill(EmbeddedTarget):
    """The desk with tasks of one skill alone: what a perfect environment for it would be."""

    def __init__(self, skill: Skill, seed: int, desk: str = "b", drawn: Skill | None = None) -> None:
        options = {"desk": desk}
        super().__init__(Targets(discovery_tasks=1000, validation_tasks=140, test_tasks=1, options=options))
        self._skill, self._drawn = skill, drawn or skill
        self._drawn_by = f"alone-{self._drawn}-{seed}"

    @property
    def version(self) -> str:
        """Of the desk, and of what is drawn."""
        return text_version(super().version, self._drawn_by)

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return tasks of the skill."""
        like = super().tasks(split)
        drawn = islice(stream(self._drawn_by, split, {self._drawn: 1}), len(like))
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


def section(iterations: int, seed: int) -> Training:
    """Return the recipe of every training here."""
    return Training(
        iterations=iterations,
        seed=seed,
        validate_every=15,
        validation_seeds=64,
        validation_episodes=64,
        save_every=1000,
    )


class Trained:
    """Trains adapters into one folder, and looks up those that were.

    Args:
        study: Holds the base model.
        out: Where they lie.
        seed: Of training.
    """

    def __init__(self, study: Study, out: Path, seed: int) -> None:
        self.base, self.base_id = base_folder(study), base_checkpoint(study).base_id
        self.folder, self.seed = out / "adapters", seed

    def alone(self, name: str, target: EmbeddedTarget, iterations: int) -> Path:
        """Train on one target."""
        from trace_assets.training.grpo import train_adapter

        began = time.process_time()
        adapter, _ = train_adapter(
            name,
            "mixed" if name == "mixed" else "capability",
            target,
            Job(self.base, self.base_id, section(iterations, self.seed), self.folder / name),
            capability_id=None if name == "mixed" else name,
        )
        return self._told(adapter, began)

    def for_all(self, kind: str, environments: Mapping[str, EmbeddedTarget], iterations: int) -> Path:
        """Train one adapter in all environments: `joint` or `sequential`."""
        began = time.process_time()
        train = train_joint if kind == "joint" else train_sequential
        recipe = section(iterations, self.seed)
        job = Job(self.base, self.base_id, recipe, self.folder / kind)
        adapter, _ = train(environments, replace(job, rollout_budget=iterations * job.batch))
        return self._told(adapter, began)

    def consolidated(
        self,
        target: EmbeddedTarget,
        environments: Mapping[str, EmbeddedTarget],
        teacher: Callable[[Target], Teacher],
        iterations: int,
    ) -> Path:
        """Distil the composed agent."""
        began = time.process_time()
        adapter, curve = train_consolidated(
            target,
            list(environments.values()),
            teacher,
            Job(self.base, self.base_id, section(iterations, self.seed), self.folder / "consolidated"),
        )
        print(f"reverse KL {curve[0].loss:.3f} -> {curve[-1].loss:.3f} nats a token")
        return self._told(adapter, began)

    def _told(self, adapter: Adapter, began: float) -> Path:
        rates = f"{adapter.validation_before:.2f} -> {adapter.validation_after:.2f}"
        spent = time.process_time() - began
        print(f"{adapter.name}: {rates}, {adapter.rollouts} rollouts, {spent:.0f} CPU s", flush=True)
        return self.folder / adapter.name


def planted_trials(study: Study, names: Mapping[Skill, str]) -> list[RoutingTrial]:
    """Return trials with the labels that a perfect diagnosis gives: what failed lacks its task's skill."""
    tasks = {task.task_id: task for task in study.store.read(Task)}
    return [
        RoutingTrial(
            trajectory_id=row.trajectory_id,
            task_id=row.task_id,
            text=tasks[row.task_id].instruction,
            lacking={"0": [names[skill]] if skill in names and not row.success else []},
        )
        for row in study.store.read(TrajectoryHead)
        if row.split == "discovery" and row.success is not None
        for skill in tasks[row.task_id].tags[:1]
    ]


def counts(rows: Sequence[Evaluation], arm: str, skill: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Return passed and judged trials, by task in a fixed order."""
    own = [row for row in rows if row.arm == arm and row.success is not None and skill in ("", row.skill)]
    tasks = {name: place for place, name in enumerate(sorted({row.task_id for row in own}))}
    found = np.zeros((2, len(tasks)), dtype=np.int64)
    for row in own:
        found[:, tasks[row.task_id]] += (int(row.success or 0), 1)
    return found[0], found[1]


def main() -> None:
    """Foresee, train, route, add up, choose, play, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--desk", choices=sorted(MIXES), default="b")
    parser.add_argument("--seed", type=int, default=0, help="of training; and of base and tasks")
    parser.add_argument(
        "--iterations", type=int, default=15, help="a skill; so many times the skills for direct"
    )
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--environments", choices=("alone", "mixed"), default="alone")
    parser.add_argument("--labels", choices=("diagnosed", "planted"), default="diagnosed")
    parser.add_argument("--anyway", action="store_true", help="add up what the gate refuses, too")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    desk = Targets(options={"desk": given.desk}, seed=given.seed, test_tasks=given.tasks)
    chosen_seeds = [f"base_model.seed={given.seed}", f"targets.seed={given.seed}"]
    study = Study.open(
        given.home, overrides=[f"targets.options.desk={given.desk}", *chosen_seeds], writable=False
    )
    base, target = base_folder(study), EmbeddedTarget(desk)
    skills = LACKING[desk_named(desk)]
    names = {skill: SKILLS.get(skill, skill) if given.labels == "diagnosed" else skill for skill in skills}
    print("planted:", planted_truth(desk_named(desk)).model_dump())
    environments = {
        names[skill]: OneSkill(
            skill,
            given.seed,
            given.desk,
            "pair" if skill == "multi" and given.environments == "mixed" else None,
        )
        for skill in skills
    }
    trained = Trained(study, given.out, given.seed)
    refused = foresee(environments, base, given.seed)
    why = " ".join(refused.values())
    refused = {} if given.anyway else refused
    total = given.iterations * len(skills)
    folders = {name: trained.alone(name, one, given.iterations) for name, one in environments.items()}
    singles = {"mixed": trained.alone("mixed", target, total)}
    if len(skills) > 1:
        order = sorted(environments, key=lambda name: name == names.get("multi"))
        for kind in ("joint", "sequential"):
            singles[kind] = trained.for_all(kind, {name: environments[name] for name in order}, total)
    if given.labels == "planted":
        trials = planted_trials(study, names)
    else:
        discovery = [task for task in study.store.read(Task) if task.split == "discovery"]
        trials = routing_trials(discovery, study.store.read(Label), study.store.read(Triage), list(folders))
    choices = sorted(folders)
    routing = study.settings.routing
    router = fit_classifier(
        base, examples_of_trials(trials, choices, routing.unneeded_cost), choices, routing
    )
    sets = [one for one in candidate_sets(choices) if not any(pair <= set(one) for pair in refused)]
    sums = {
        set_name(one): compose_adapters(base, {name: folders[name] for name in one}, given.out / "sums")[1]
        for one in sets
    }
    if sums:

        def teacher(played: Target) -> Teacher:
            sets = sets_of(router.route(list(played.tasks("discovery"))), routing.unneeded_cost)
            return Teacher({task: within(one, sums) for task, one in sets.items()}, {**folders, **sums})

        singles["consolidated"] = trained.consolidated(target, environments, teacher, given.iterations)
    playing = EvaluationSection(trials=2, seed=given.seed)
    journal = given.out / "journal"
    validation, _ = evaluate(
        target,
        base,
        {**folders, **{name: path for name, path in singles.items() if name != "mixed"}},
        None,
        None,
        playing,
        journal / "v",
        1,
        split="validation",
    )
    if sums:
        validation += evaluate_sums(target, base, sums, playing, journal / "s", 1)[0]
    arms: dict[str, Mapping[str, str]] = {}
    routes = {split: router.route(list(target.tasks(split))) for split in ("validation", "test")}
    candidates = [row for row in validation if row.arm in ("base", "joint", "sequential", "consolidated")]
    candidates += compose_rows(
        "routed", {one.task_id: one.choice for one in routes["validation"]}, validation
    )
    wanted = {split: sets_of(own, routing.unneeded_cost) for split, own in routes.items()}
    sent = {split: {task: within(one, sums) for task, one in own.items()} for split, own in wanted.items()}
    test = list(target.tasks("test"))
    if sums:
        candidates += compose_rows("composed", sent["validation"], validation)
        arms = {"composed": sent["test"], "oracle_composed": oracle_choice(validation, test)}
        if (whole := set_name(choices)) in sums:
            everywhere = {task.task_id: whole for task in target.tasks("validation")}
            candidates += compose_rows("sum", everywhere, validation)
            arms["sum"] = {task.task_id: whole for task in test}
    no = {arm: why for arm in ("sum", "composed") if why}
    print("choice:", sentence(choose(candidates, no)))
    single_arms = {"base", *(arm_of(name) for name in folders)}
    rows, _ = evaluate(
        target,
        base,
        {**folders, **singles},
        routes["test"],
        oracle_choice([row for row in validation if row.arm in single_arms], test),
        playing,
        journal / "t",
        1,
        composed=Composed(sums, arms) if arms else None,
    )
    sizes = [len(members_of(choice)) for choice in sent["test"].values()]
    print("adapters a task by the router:", {size: sizes.count(size) for size in sorted(set(sizes))})
    show(rows)
    given.out.joinpath("rows.json").write_text(json.dumps([row.model_dump(mode="json") for row in rows]))
    print(f"{time.process_time() - began:.0f} CPU s")


def foresee(environments: Mapping[str, EmbeddedTarget], base: Path, seed: int) -> dict[frozenset[str], str]:
    """Print the cosines of the policy gradients, and return which pairs are refused."""
    began = time.process_time()
    pairs = pairs_of(measure(environments, base, section(1, seed)), seed=seed)
    for row in pairs:
        if row.condition and row.cosine is not None and row.reliability >= 0.3:
            print(
                f"  {row.capability_id} [{row.condition}] ~ {row.other_id} [{row.other_condition}]: "
                f"{row.cosine:+.2f} [{row.cosine_low:+.2f}, {row.cosine_high:+.2f}] {row.verdict}"
            )
    for row in pairs:
        if not row.condition:
            print(f"{row.capability_id} ~ {row.other_id}: {row.verdict}; {row.reason}")
    for row in unbranched(pairs):
        print(f"not told apart: {row.capability_id}, {row.condition} and {row.other_condition}")
    print(f"gradients: {time.process_time() - began:.0f} CPU s", flush=True)
    return opposed_pairs(pairs)


def show(rows: Sequence[Evaluation]) -> None:
    """Print every arm with its difference to GRPO on the target; the distilled one's to its teacher."""
    taught, teacher = (counts(rows, arm) for arm in ("consolidated", "composed"))
    if len(taught[0]) and len(teacher[0]):
        gap = compare(*taught, *teacher, resamples=2000, seed=0).delta
        print(
            f"consolidated minus composed {100 * (gap.value or 0):+.1f} "
            f"[{100 * (gap.low or 0):+.1f}, {100 * (gap.high or 0):+.1f}]"
        )
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


if __name__ == "__main__":
    main()
