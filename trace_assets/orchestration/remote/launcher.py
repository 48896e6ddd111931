"""The training step in another interpreter or container, by Dagster Pipes, with nothing of it left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg

from trace_assets.errors import InputError, Unavailable
from trace_assets.orchestration.remote.process import MODULE, adapter_code
from trace_assets.records import TrainingPoint
from trace_assets.study import Study
from trace_assets.training.plan import OnPoint

if TYPE_CHECKING:
    from trace_assets.assets.adapter import Elsewhere
    from trace_assets.sandbox.reward_verification import Recomputed
_POLL_SECONDS = 0.2


class Started(Protocol):
    """A training that was started."""

    def wait(self, seconds: float) -> int | None:
        """Wait so long at most; return its exit code, None while it runs.

        Raises:
            Unavailable: It cannot be told any more.
        """

    def end(self) -> None:
        """End it and all it started: asked first where it still runs, then killed. Nothing is left of it."""


class Launcher(Protocol):
    """Knows where a training runs, and starts it there."""

    @property
    def where(self) -> str:
        """What messages call the place."""

    def folder(self) -> AbstractContextManager[Path]:
        """Open an empty folder which this process and the training see at the same path, and lock it.

        The training ends when the lock does: with this process, or with the context.
        """

    def start(self, environment: Mapping[str, str], folder: Path) -> Started:
        """Start the training; it ends when this process is gone.

        Raises:
            InputError: A setting names what is not there.
            Unavailable: It could not be started.
        """


def elsewhere(study: Study, context: dg.AssetExecutionContext) -> Elsewhere | None:
    """Return what trains where the settings say; None where the step's own process does.

    Raises:
        InputError: Several processes are asked for, and none but the step's own.
    """
    section = study.settings.training
    if section.launcher == "in_process":
        if section.processes > 1:
            raise InputError(
                f"training.processes is {section.processes} and training.launcher 'in_process', which is one "
                "process: set training.launcher to 'pipes' or 'docker'."
            )
        return None

    def train(name: str, on_point: OnPoint) -> Recomputed | None:
        from trace_assets.sandbox.reward_verification import Recomputed

        request = {
            "name": name,
            "home": str(study.home.path),
            "settings": study.settings.model_dump_json(),
            "code": adapter_code(name),
        }
        found = run_training(context, _launcher(study, name), request, on_point)
        return None if found is None else Recomputed(**found)

    return train


def _launcher(study: Study, name: str) -> Launcher:
    section = study.settings.training
    if section.launcher == "docker":
        from trace_assets.orchestration.remote.container import training_container

        return training_container(study, name)
    from trace_assets.orchestration.remote.process import ProcessLauncher

    return ProcessLauncher([section.python or sys.executable, "-m", MODULE])


def run_training(
    context: dg.AssetExecutionContext, launcher: Launcher, request: dict[str, Any], on_point: OnPoint
) -> dict[str, Any] | None:
    """Run a training to its end; all of it ends with this call, however that ends.

    The session is driven here, and not by Dagster's clients, because those hear nothing before the end and
    leave processes and containers behind (docs/training/machines.md).

    Args:
        context: The step.
        launcher: Starts it.
        request: What is asked for; goes to the process as the extras of Pipes.
        on_point: Told of each iteration as it is made, in this thread.

    Returns:
        What the process says was recomputed.

    Raises:
        InputError: It says that a setting or file is wrong.
        Unavailable: It says that something is missing, could not be started, or ended without a word.
    """
    ended: dict[str, Any] = {}
    heard = 0

    def hear(session: Any) -> None:
        nonlocal heard
        messages = session.get_custom_messages()
        for message in messages[heard:]:
            heard += 1
            if "point" in message:
                on_point(TrainingPoint.model_validate_json(json.dumps(message["point"])))
            else:
                ended.update(message)

    with (
        launcher.folder() as folder,
        dg.open_pipes_session(
            context=context,
            context_injector=dg.PipesFileContextInjector(str(folder / "context")),
            message_reader=dg.PipesFileMessageReader(str(folder / "messages")),
            extras={**request, "lifeline": str(folder)},
        ) as session,
    ):
        started = launcher.start(session.get_bootstrap_env_vars(), folder)
        try:
            while (code := started.wait(_POLL_SECONDS)) is None:
                hear(session)
        finally:
            started.end()
    hear(session)
    if "failed" in ended:
        kind = InputError if ended.get("exit_code") == InputError.exit_code else Unavailable
        raise kind(str(ended["failed"]))
    if code != 0 or "done" not in ended:
        raise Unavailable(
            f"training in {launcher.where} ended with code {code} and without a result (its words are in the "
            "step's stderr); finished iterations are kept, run again."
        )
    found: dict[str, Any] | None = ended["recomputed"]
    return found
