"""What tau2-bench's own program writes down of its conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from trace_assets.errors import InputError

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
