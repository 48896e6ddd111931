"""The zoo's door under audit, played by a model server that knows the way in half of the cases."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.answering import Answer, AnsweringServer, completion
from tests.audit_fixtures.broken_environment import sound_source
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, ZOO_SIZES, record
from trace_assets.environments.audit.battery import audit
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Probe
from trace_assets.environments.learnability import seed_outcomes
from trace_assets.policies.protocol import Policy
from trace_assets.records import EnvironmentCheck, SeedOutcome, Trajectory
from trace_assets.resources.divided_audit import divided_rollouts
from trace_assets.resources.policy import open_policy
from trace_assets.resources.sandbox import sandbox_pool
from trace_assets.rollouts import parallel
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import closing_policy
from trace_assets.sandbox import SandboxConfig, SandboxPool, open_pool
from trace_assets.study import Study
from trace_assets.targets.seeds import audited

DOOR = record(sound_source("door"), "door")
SEEDS, ROLLOUTS = 12, 4


class Knowing(AnsweringServer):
    """Answers by what it is sent alone: the solution where the first turn's seed is even, else goodbye.

    Attributes:
        is_broken: Whether it answers nothing that could be used.
    """

    is_broken = False

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pool = open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=300))
        self._lines: dict[str, list[Action]] = {}
        with pool:
            probe = Probe(pool, DOOR.source)
            for seed in ZOO_PERMUTATION.inside(audited(ZOO_PERMUTATION, SEEDS)):
                self._lines[_said(probe.first(seed))] = probe.oracle(seed)
        super().__init__()
        self._http.socket.listen(256)  # all episodes begin at once

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Return the next line of the solution, or goodbye."""
        if self.is_broken:
            return 400, {}, {"error": {"message": "no such thing"}}
        spoken = [n for n, message in enumerate(body["messages"]) if message["role"] == "assistant"]
        first = body["messages"][: spoken[0]] if spoken else body["messages"]
        if not spoken and body["seed"] % 2:
            return completion("Goodbye.")
        line = [*self._lines[_said(first)], {"content": "Done."}][len(spoken)]
        status, headers, said = completion(line.get("content"))
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for call in line.get("tool_calls", ())
        ]
        if calls:
            said["choices"][0]["message"]["tool_calls"] = calls
        return status, headers, said


def _said(messages: list[dict[str, Any]]) -> str:
    return "\n".join(str(message.get("content") or "") for message in messages)


@contextmanager
def door_study(folder: Path, server: AnsweringServer) -> Iterator[dict[str, str]]:
    """Have this process open a study whose policy the server plays; yield the variables that say so."""
    settings = {
        "ROLLOUTS__ENGINE": "openai",
        "ROLLOUTS__BASE_URL": server.v1,
        "ROLLOUTS__MODEL": "base",
        "ROLLOUTS__RETRIES": "8",
        "ROLLOUTS__CHECK_MODEL": "false",
        "SANDBOX__BACKEND": "unsafe-subprocess",
        "SANDBOX__DEADLINE_SECONDS": "300",
        "SYNTHESIS__AUDIT_SEEDS": str(SEEDS),
        "SYNTHESIS__AUDIT_ROLLOUTS": str(ROLLOUTS),
    }
    variables = {"TRACE_HOME": str(folder)} | {f"TRACE__{name}": value for name, value in settings.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield variables


@contextmanager
def _opened() -> Iterator[tuple[Study, SandboxPool, Policy]]:
    warnings.simplefilter("ignore")
    study = Study.open()
    with sandbox_pool(study) as pool, closing_policy(open_policy(study)) as policy:
        yield study, pool, policy


def roll_out_on_door() -> list[Trajectory]:
    """Return the base policy's episodes as a check of the audit asks for them."""
    with _opened() as (study, pool, policy):
        subject = Subject(
            DOOR,
            pool,
            study.settings.synthesis,
            permutation=ZOO_PERMUTATION,
            policy=policy,
            elsewhere=divided_rollouts(study),
        )
        return subject.rollouts


def audit_door() -> tuple[list[EnvironmentCheck], list[SeedOutcome]]:
    """Audit the door as an item does; return what it writes."""
    played = list[Trajectory]()
    with _opened() as (study, pool, policy):
        checks = audit(
            DOOR,
            pool,
            None,
            study.settings.synthesis,
            base_policy=policy,
            rules=ZOO_RULES,
            sizes=ZOO_SIZES,
            permutation=ZOO_PERMUTATION,
            rolled_out=played.extend,
            elsewhere=divided_rollouts(study),
        )
    timeless = [one.model_copy(update={"timing": ""}) for one in checks]
    return timeless, seed_outcomes("door", DOOR.environment_id, played)


def audit_elsewhere(variables: dict[str, str]) -> tuple[list[EnvironmentCheck], list[SeedOutcome], int]:
    """Audit the door in the study that variables name; return also how many shards it was divided into."""
    os.environ.update(variables)
    shards, divided = 0, parallel.shards_of

    def counted(trials: Sequence[Trial], workers: int) -> list[Sequence[Trial]]:
        nonlocal shards
        shards = len(found := divided(trials, workers))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "shards_of", counted)
        return *audit_door(), shards
