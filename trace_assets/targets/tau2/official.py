"""tau2-bench's own program, `tau2 run`, played on an agent's server, and what it writes down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trace_assets.errors import InputError, Unavailable
from trace_assets.system.processes import ask_to_end_with_parent
from trace_assets.system.progress import Bar, progress

_LOOK_EVERY = 0.5
_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Model:
    """A model behind an OpenAI-compatible server, or any that litellm knows by name.

    Attributes:
        name: As the server names it.
        base_url: Its address; empty leaves it to litellm and its environment variables.
        options: Such as temperature, as litellm takes them. No key: it stands in the results.
    """

    name: str
    base_url: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, side: str) -> list[str]:
        """Return tau2's arguments for one side (agent or user)."""
        # litellm takes the first part off for itself, also where the server's own name begins so.
        name = f"openai/{self.name}" if self.base_url else self.name
        options = {**self.options, **({"api_base": self.base_url} if self.base_url else {})}
        return [f"--{side}-llm", name, f"--{side}-llm-args", json.dumps(options)]


@dataclass(frozen=True)
class OfficialRun:
    """What `tau2 run` is asked to play.

    Attributes:
        domain: As tau2 names it.
        solo: Whether the agent plays without a user.
        agent: Who acts.
        user: Who simulates the user; None in solo.
        trials: Conversations a task.
        seed: tau2 draws the seeds of the trials from it.
        max_steps: Messages of all sides after which a conversation is cut off.
        concurrency: Conversations at once, in threads of one process.
    """

    domain: str
    solo: bool
    agent: Model
    user: Model | None
    trials: int = 1
    seed: int = 300
    max_steps: int = 200
    concurrency: int = 4

    def seeds(self) -> list[int]:
        """Return the seed of every trial, drawn as tau2 draws them."""
        random = Random(self.seed)
        return [random.randint(0, 1_000_000) for _ in range(self.trials)]

    def arguments(self, folder: Path, tasks: Sequence[str]) -> list[str]:
        """Return the command line after `tau2`."""
        who = ["--agent", "llm_agent_solo" if self.solo else "llm_agent", *self.agent.arguments("agent")]
        who += ["--user", "dummy_user" if self.solo else "user_simulator"]
        who += self.user.arguments("user") if self.user is not None else []
        counts = {
            "--num-trials": self.trials,
            "--max-steps": self.max_steps,
            "--seed": self.seed,
            "--max-concurrency": self.concurrency,
        }
        words = [word for name, value in counts.items() for word in (name, str(value))]
        # An absolute path is not put below the benchmark's own data folder.
        where = ["--save-to", str(folder.absolute()), "--auto-resume"]
        return ["run", "--domain", self.domain, *who, *words, *where, "--task-ids", *tasks]


def play_officially(
    run: OfficialRun,
    tasks: Sequence[str],
    folder: Path,
    *,
    python: Path,
    variables: Mapping[str, str],
    patience: float = 3600.0,
) -> dict[tuple[str, int], OfficialSimulation]:
    """Play tasks by `tau2 run`; what an earlier call finished in the same folder is not played again.

    The program runs in a process group of its own, which ends with this call, however it is left.

    Args:
        run: What is played.
        tasks: tau2's ids. Those that the folder holds already stay part of the run.
        folder: Where `results.json` and the program's words are kept.
        python: The benchmark's interpreter; the program lies beside it.
        variables: Environment variables that the benchmark needs.
        patience: Seconds without a finished conversation after which the program is killed.

    Returns:
        The simulations of the tasks that were asked for, by task and trial.

    Raises:
        Unavailable: The program is not there, fails, or gets nowhere; what finished is kept.
        InputError: The results are not what tau2 writes.
    """
    program = python.with_name("tau2")
    if not program.is_file():
        raise Unavailable(
            f"tau2's own program is not beside {python}; run `trace targets install tau2 --from DIR` again."
        )
    folder.mkdir(parents=True, exist_ok=True)
    results, log = folder / RESULTS, folder / "tau2_run.log"
    # tau2 refuses to go on with fewer tasks than it began with.
    every = list(dict.fromkeys([*begun_with(results), *tasks]))
    # Its solo mode does not run as it is; without -P this folder would come before its packages.
    mended = [str(python), "-P", str(Path(__file__).with_name("solo_run.py"))]
    command = [*(mended if run.solo else [str(program)]), *run.arguments(folder, every)]
    environment = {**os.environ, **variables}
    environment.setdefault("OPENAI_API_KEY", "not-needed")  # litellm asks for one, many servers do not
    with log.open("ab") as words:
        words.write(f"$ {' '.join(command)}\n".encode())
        words.flush()
        begin = words.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
            preexec_fn=ask_to_end_with_parent,
        )
    try:
        with progress("tau2 run", len(every) * run.trials) as bar:
            _wait(process, results, bar, patience)
    finally:
        _end(process)
    if process.returncode != 0:
        raise Unavailable(
            f"`tau2 run` ended with code {process.returncode}{_last_words(log, begin)}; the whole log is "
            f"{log}. What it finished is kept for the next call."
        )
    wanted = set(tasks)
    found = {
        (one.task_id, one.trial or 0): one for one in read_results(results).values() if one.task_id in wanted
    }
    missing = len(wanted) * run.trials - sum(trial < run.trials for _, trial in found)
    if missing > 0:
        raise Unavailable(f"`tau2 run` left {missing} conversations out; the log {log} may say why.")
    return found


def _wait(process: subprocess.Popen[bytes], results: Path, bar: Bar, patience: float) -> None:
    changed, until, done = 0, time.monotonic() + patience, 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY)
        ended = process.returncode is not None
        with suppress(OSError):
            state = results.stat().st_mtime_ns
            if state != changed:
                changed, until = state, time.monotonic() + patience
                # The whole file is written anew after every conversation; counting is cheaper than reading.
                now = results.read_bytes().count(b'"termination_reason":')
                bar.advance(max(0, now - done))
                done = max(done, now)
        if ended:
            return
        if time.monotonic() > until:
            raise Unavailable(
                f"`tau2 run` finished no conversation in {patience:g} s and was killed (a tool call can hold "
                f"its interpreter for ever); {done} conversations are kept, and the next call plays the "
                "others."
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group, gently first."""
    for sign, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _STOP_SECONDS)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def _last_words(log: Path, begin: int) -> str:
    with suppress(OSError), log.open("rb") as file:
        file.seek(begin)
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        told = [line for line in lines if "Error" in line] or lines
        return f": {told[-1][-300:]}" if told else ""
    return ""


RESULTS = "results.json"
BROKEN = "infrastructure_error"
"""How tau2 names a conversation that ended in an exception, the agent's half JSON among them."""


class _Open(BaseModel):
    """What another program wrote: fields that are not named here are its own."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class OfficialCall(_Open):
    """A tool call."""

    name: str
    arguments: Any = None


class OfficialMessage(_Open):
    """A message of a simulation, the user's dealings with its own tools among them."""

    role: str
    content: str | None = None
    tool_calls: tuple[OfficialCall, ...] | None = None
    requestor: str = "assistant"
    error: bool = False


class OfficialReward(_Open):
    """What the evaluator gave."""

    reward: float


class OfficialSimulation(_Open):
    """One conversation as `tau2 run` recorded it."""

    task_id: str
    trial: int | None = None
    termination_reason: str
    reward_info: OfficialReward | None = None
    messages: tuple[OfficialMessage, ...] = ()
    info: dict[str, Any] | None = None

    @property
    def reward(self) -> float | None:
        """The evaluator's reward, None where the conversation broke."""
        if self.termination_reason == BROKEN or self.reward_info is None:
            return None
        return self.reward_info.reward

    @property
    def error(self) -> str:
        """Why it broke, empty where it did not."""
        if self.reward is not None:
            return ""
        told = self.info or {}
        return " ".join(f"{told.get('error_type', '')}: {told.get('error', '')}".split())[:300]


class _Task(_Open):
    id: str


class _Results(_Open):
    tasks: tuple[_Task, ...]
    simulations: tuple[OfficialSimulation, ...]


def read_results(file: Path) -> dict[tuple[str, int], OfficialSimulation]:
    """Return the simulations of a results file by task and trial.

    Raises:
        InputError: It is not one.
    """
    return {(one.task_id, one.trial or 0): one for one in _read(file).simulations}


def begun_with(file: Path) -> list[str]:
    """Return the tasks that an earlier call began with, none where there is no file.

    Raises:
        InputError: It is not a results file.
    """
    return [task.id for task in _read(file).tasks] if file.is_file() else []


def _read(file: Path) -> _Results:
    try:
        return _Results.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{file} is not a results file of tau2-bench ({type(error).__name__}); delete its folder to play "
            "its conversations again."
        ) from error
