"""The same tasks with the same agent by our runner and by tau2-bench's own program, compared."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.policies.openai_server import OpenAIPolicy
from trace_assets.policies.protocol import Conversation
from trace_assets.records import Split, Task, Trajectory
from trace_assets.rollouts.episode import Trial, run_identity, trajectory_id
from trace_assets.rollouts.runner import Journal, run_rollouts
from trace_assets.settings import Rollouts, Targets
from trace_assets.store.files import write_text
from trace_assets.store.locks import exclusive
from trace_assets.study import Study
from trace_assets.system.processes import whole_cores
from trace_assets.system.progress import progress
from trace_assets.targets.process.target import ProcessTarget
from trace_assets.targets.registry import open_named, open_target, read_installed
from trace_assets.targets.tau2.official import Model, OfficialRun, play_officially
from trace_assets.targets.tau2.parity import ParityReport, figures, pair

BENCHMARK = "tau2"
REPORT, OURS, OFFICIAL = "parity.json", "ours", "official"


@dataclass(frozen=True)
class ParityPlan:
    """What is played by both.

    Attributes:
        target: Such as tau2:airline.
        splits: Whose tasks.
        tasks: At most so many of them, in tau2's order; None takes all.
        trials: Conversations a task.
        seed: tau2 draws the seeds of the trials from it; both sides send them with every request.
        concurrency: Conversations at once.
        patience: Seconds without a finished conversation after which `tau2 run` is killed.
        again: Forget what was played before: another model may stand behind the same name.
    """

    target: str
    splits: tuple[Split, ...] = ("discovery",)
    tasks: int | None = 20
    trials: int = 1
    seed: int = 300
    concurrency: int = 4
    patience: float = 3600.0
    again: bool = False


def compare_with_official(study: Study, plan: ParityPlan) -> tuple[ParityReport, Path]:
    """Play tasks by both and compare, task by task.

    The agent is the server of `[rollouts]`, asked by both as `tau2 run` asks: the same messages, tools, seed,
    temperature, length limit and, in solo, `tool_choice`. What finished is kept in the home; the same call
    plays what is missing and what broke.

    Returns:
        The report, and the folder in the home that holds it with the conversations of both.

    Raises:
        InputError: The settings name no server, or a user that `tau2 run` does not have.
        Unavailable: tau2 is not installed, a server cannot be used, or the same comparison is under way.
    """
    rollouts = study.settings.rollouts
    solo = plan.target.endswith("_solo")
    section = _section(study.settings.targets, plan.target, solo=solo)
    installed = read_installed(study.home.targets, BENCHMARK)
    url = _address(rollouts)
    target = open_target(section, study.home.targets)
    assert isinstance(target, ProcessTarget)
    try:
        run = OfficialRun(
            domain=plan.target.partition(":")[2].removesuffix("_solo"),
            solo=solo,
            agent=Model(
                rollouts.model,
                url,
                {
                    "temperature": rollouts.temperature,
                    "max_tokens": rollouts.max_new_tokens,
                    "timeout": rollouts.timeout_seconds,
                },
            ),
            user=None if solo else _user(section.options),
            trials=plan.trials,
            seed=plan.seed,
            max_steps=int(section.options.get("max_steps", 200)),
            concurrency=plan.concurrency,
        )
        tasks, left_out = _tasks(target, plan, judge=bool(section.options.get("judge")))
        folder = study.home.parities / f"{plan.target.replace(':', '-')}-{_key(target, run)}"
        try:
            with exclusive(folder / "lock", "trace targets parity", patience=0.0):
                if plan.again:
                    for side in (OURS, OFFICIAL):
                        shutil.rmtree(folder / side, ignore_errors=True)
                ours = _play(target, run, tasks, rollouts, Journal(folder / OURS))
                if all(one.fault is not None for one in ours):
                    raise Unavailable(f"no conversation came to its end by our runner: {ours[0].error}")
                names = [task.payload["id"] for task in tasks]
                theirs = play_officially(
                    run,
                    names,
                    folder / OFFICIAL,
                    python=Path(section.python or installed.python),
                    variables=installed.variables,
                    patience=plan.patience,
                )
        except TimeoutError:
            raise Unavailable(f"the same comparison is under way in {folder}; wait for it.") from None
        pairs = tuple(
            pair(one, theirs[_name(one), one.trial], task_id=_name(one), solo=solo)
            for one in sorted(ours, key=lambda one: (names.index(_name(one)), one.trial))
        )
        report = ParityReport.model_validate(
            {
                "target": plan.target,
                "provenance": dict(target.provenance),
                "agent": f"{rollouts.model} at {url}",
                "user": run.user.name if run.user is not None else "none",
                "temperature": rollouts.temperature,
                "max_tokens": rollouts.max_new_tokens,
                "seed": plan.seed,
                "trials": plan.trials,
                "max_steps": run.max_steps,
                "left_out": tuple(left_out),
                "pairs": pairs,
                **figures(pairs),
            }
        )
    finally:
        target.close()
    write_text(folder / REPORT, report.model_dump_json(indent=2))
    return report, folder


def _section(section: Targets, name: str, *, solo: bool) -> Targets:
    """Return the target's settings with a user that `tau2 run` has, the whole of its tasks open."""
    if not name.startswith(f"{BENCHMARK}:"):
        raise InputError(f"'{name}' is not a target of tau2; name one such as tau2:airline.")
    options = dict(section.options)
    wanted = "none" if solo else "model"
    if options.setdefault("user", wanted) != wanted:
        raise InputError(
            f"`tau2 run` plays {name} with a user that is {'left out' if solo else 'a language model'}; set "
            f"targets.options.user to '{wanted}'."
        )
    if not solo and not options.get("user_model"):
        raise InputError(
            "the simulated user needs a model: set targets.options.user_model, and user_base_url for one on "
            "a server of your own."
        )
    options["score"] = "official"
    everything = {f"{split}_tasks": 1_000_000 for split in ("discovery", "validation", "test")}
    changes = {"name": name, "path": "", "options": options, **everything}
    return Targets.model_validate({**section.model_dump(), **changes})


def _address(section: Rollouts) -> str:
    if section.engine != "openai" or not section.base_url or not section.model:
        raise InputError(
            "`tau2 run` speaks to a model server: set rollouts.engine to 'openai', rollouts.base_url and "
            "rollouts.model."
        )
    if "," in section.base_url:
        raise InputError("`tau2 run` speaks to one server: name one in rollouts.base_url.")
    return section.base_url


def _user(options: Mapping[str, Any]) -> Model:
    temperature = float(options.get("user_temperature", 0.0))
    url = str(options.get("user_base_url", ""))
    name = str(options["user_model"])
    return Model(name.removeprefix("openai/") if url else name, url, {"temperature": temperature})


def _tasks(target: ProcessTarget, plan: ParityPlan, *, judge: bool) -> tuple[list[Task], list[str]]:
    """Return what is played, and the ids of what a language model would have to judge."""
    every = [task for split in plan.splits for task in target.tasks(split)]
    left_out = [] if judge else [task.payload["id"] for task in every if "judge" in task.tags]
    played = [task for task in every if judge or "judge" not in task.tags][: plan.tasks]
    if not played:
        raise InputError(
            f"there is no task of {plan.target} to play in {', '.join(plan.splits)}; name another --split, "
            "or set targets.options.judge where a judge can be asked."
        )
    return played, left_out


def _key(target: ProcessTarget, run: OfficialRun) -> str:
    """Return what two comparisons must share to be one: all but tasks, trials and pace."""
    sides = [[side.name, side.base_url, dict(side.options)] for side in (run.agent, run.user) if side]
    parts = [target.description.version, sides, run.seed, run.max_steps]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _name(trajectory: Trajectory) -> str:
    return trajectory.task_id.partition("/")[2]


def _play(
    target: ProcessTarget, run: OfficialRun, tasks: Sequence[Task], section: Rollouts, journal: Journal
) -> list[Trajectory]:
    """Play by our runner."""
    trials = [
        Trial(task=task, trial=number, seed=seed) for task in tasks for number, seed in enumerate(run.seeds())
    ]
    policy = _AskedAsByTau2(
        section.base_url,
        section.model,
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
        retries=section.retries,
        timeout_seconds=section.timeout_seconds,
        check_model=section.check_model,
    )
    policy.solo = run.solo
    identity = run_identity(target, policy, run.max_steps)
    policy.seeds = {trajectory_id(identity, trial): trial.seed for trial in trials}
    return run_rollouts(
        target,
        trials,
        policy,
        max_turns=run.max_steps,  # the target counts the steps; an agent's messages are fewer
        concurrency=min(run.concurrency, target.config.processes or whole_cores()),
        journal=journal,
        title=f"{target.name} by our runner",
    )


class _AskedAsByTau2(OpenAIPolicy):
    """Sends what `tau2 run` sends: the trial's seed at every turn, and in solo that a tool must be called."""

    solo = False
    seeds: Mapping[str, int] = {}

    def _body(self, conversation: Conversation, model: str) -> dict[str, Any]:
        body = super()._body(conversation, model) | {"seed": self.seeds[conversation.conversation_id]}
        if conversation.tools:
            body["tool_choice"] = "required" if self.solo else "auto"
        return body


# Recorded simulations judged again by the benchmark that is installed: does it still say the same?


@dataclass(frozen=True)
class Regraded:
    """What came of one file.

    Attributes:
        file: Its name.
        n: Simulations in it.
        equal: Rewards that came out as recorded.
        differing: Task, reward now and reward recorded of the others; a fault's words in place of the reward.
    """

    file: str
    n: int
    equal: int
    differing: list[tuple[str, Any, Any]] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The first difference in words, empty without one."""
        if not self.differing:
            return ""
        task, now, then = self.differing[0]
        return f"; task {task}: {now} now, {then} recorded"


def regrade_files(study: Study, domain: str, files: Sequence[Path]) -> list[Regraded]:
    """Judge files of simulations again, each on the tasks that were recorded with it.

    Args:
        study: Where the benchmark is installed.
        domain: Their target.
        files: Simulation files of tau2-bench.

    Raises:
        InputError: A file is not one.
        Unavailable: The benchmark is not installed.
    """
    target = open_named(study.settings.targets, domain, study.home.targets, serverless=True)
    assert isinstance(target, ProcessTarget)
    try:
        return [_regrade(target, file) for file in files]
    finally:
        target.close()


def _regrade(target: ProcessTarget, file: Path) -> Regraded:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        tasks = {task["id"]: task for task in document["tasks"]}
        simulations = document["simulations"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} is not a simulation file of tau2-bench ({type(error).__name__}: {error}); name one with "
            "'tasks' and 'simulations'."
        ) from error
    equal, differing = 0, []
    with progress(f"regrade {file.name}", len(simulations)) as bar:
        for simulation in simulations:
            name = simulation.get("task_id", "")
            fields = {"simulation": simulation, "task": tasks.get(name)}
            try:
                answer = target.ask("regrade", arguments=fields)
                now, then = answer["reward"], answer["recorded"]
            except TraceError as fault:
                now, then = str(fault), None
            if now == then and now is not None:
                equal += 1
            else:
                differing.append((name, now, then))
            bar.advance(1)
    return Regraded(file.name, len(simulations), equal, differing)
