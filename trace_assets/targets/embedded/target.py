"""The embedded target: tasks, episodes, an oracle and an agent that does nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import islice

from trace_assets.code_versions import code_version
from trace_assets.records import Message, Split, Task, ToolSpec
from trace_assets.settings import Targets
from trace_assets.targets.embedded.case import case_of
from trace_assets.targets.embedded.episode import DeskEpisode
from trace_assets.targets.embedded.generator import stream
from trace_assets.targets.embedded.rules import solve
from trace_assets.targets.embedded.tools import TOOLS

NAME = "embedded"

# What decides tasks, observations and verdicts. Demonstrations are not among it: they decide the agent.


def _source(name: str) -> bytes:
    return resources.files("trace_assets.targets.embedded").joinpath(name).read_bytes()


@cache
def _policy() -> str:
    return _source("policy.md").decode("utf-8").strip()


class EmbeddedTarget:
    """An order desk. Tasks follow from the seed and the counts in the section `targets`."""

    def __init__(self, section: Targets) -> None:
        self._section = section
        self._tasks: dict[Split, tuple[Task, ...]] = {}

    @property
    def name(self) -> str:
        """`embedded`."""
        return NAME

    @property
    def version(self) -> str:
        """Hash of the sources that decide, and of the section."""
        decided = f"{code_version('order desk')}/{self._section.fingerprint()}"
        return hashlib.sha256(decided.encode()).hexdigest()[:16]

    @property
    def policy(self) -> str:
        """The desk's rules in words."""
        return _policy()

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The six tools of the desk."""
        return TOOLS

    @property
    def section(self) -> Targets:
        """The section the tasks follow from."""
        return self._section

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return the tasks of one split, always the same for the same section."""
        if split not in self._tasks:
            count = {
                "discovery": self._section.discovery_tasks,
                "validation": self._section.validation_tasks,
                "test": self._section.test_tasks,
            }[split]
            self._tasks[split] = tuple(
                Task(
                    task_id=f"{NAME}/{split}-{number:05d}",
                    target=NAME,
                    split=split,
                    task_batch=f"{NAME}-{split}",
                    instruction=drawn.text,
                    tags=(drawn.skill,),
                    payload=drawn.case().payload(),
                )
                for number, drawn in enumerate(islice(stream(self._section.seed, split), count))
            )
        return self._tasks[split]

    def episode(self, task: Task, *, seed: int) -> DeskEpisode:
        """Make a fresh episode. Nothing at the desk is random beside the task, so `seed` changes nothing.

        Raises:
            InputError: The task's payload is not one of this target's.
        """
        return DeskEpisode(case_of(task), task.instruction, self.policy)

    def oracle(self, task: Task) -> list[Message]:
        """Return the assistant messages that solve a task. For tests and audits, never shown to an agent."""
        return solve(case_of(task))
