"""The training step in another interpreter, by Dagster Pipes, with nothing of it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dagster as dg

from trace_assets.errors import InputError, Unavailable
from trace_assets.records import TrainingPoint
from trace_assets.study import Study

if TYPE_CHECKING:
    from trace_assets.sandbox.recompute import Recomputed
    from trace_assets.stages.training import Elsewhere

OnPoint = Callable[[TrainingPoint], None]
MODULE = "trace_assets.assets.training_process"
GRACE_SECONDS = 10.0
"""How long a cancelled training may take to close its sandboxes before it is killed."""
_POLL_SECONDS = 0.2


def elsewhere(study: Study, context: dg.AssetExecutionContext) -> Elsewhere | None:
    """Return what trains in the interpreter that the settings name; None where the step's own process does.

    Args:
        study: The study.
        context: The step.
    """
    section = study.settings.training
    if section.launcher == "in_process":
        return None
    python = section.python or sys.executable

    def train(name: str, on_point: OnPoint) -> Recomputed | None:
        from trace_assets.sandbox.recompute import Recomputed

        request = {
            "name": name,
            "home": str(study.home.path),
            "settings": study.settings.model_dump_json(),
        }
        found = run_training(context, [python, "-m", MODULE], request, on_point)
        return None if found is None else Recomputed(**found)

    return train


def run_training(
    context: dg.AssetExecutionContext,
    command: Sequence[str],
    request: dict[str, Any],
    on_point: OnPoint,
) -> dict[str, Any] | None:
    """Run a training process to its end; its whole process group ends with this call, however it ends.

    `PipesSubprocessClient` signals the direct child only, so that what that one started (workers of a
    launcher, a model server) would live on after a cancelled run; hence the session is driven here.

    Args:
        context: The step.
        command: Interpreter and module.
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

    with dg.open_pipes_session(
        context=context,
        context_injector=dg.PipesTempFileContextInjector(),
        message_reader=dg.PipesTempFileMessageReader(),
        extras={**request, "parent": os.getpid()},
    ) as session:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **session.get_bootstrap_env_vars()},
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{command[0]} cannot be started ({error}); mend training.python.") from error
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                    break
                hear(session)
        finally:
            _end_group(process)
    hear(session)
    if "failed" in ended:
        kind = InputError if ended.get("exit_code") == InputError.exit_code else Unavailable
        raise kind(str(ended["failed"]))
    if process.returncode != 0 or "done" not in ended:
        raise Unavailable(
            f"training in {command[0]} ended with code {process.returncode} and without a result (its words "
            "are in the step's stderr); finished iterations are kept, run again."
        )
    found: dict[str, Any] | None = ended["recomputed"]
    return found


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and all it started: asked first where it still runs, then killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
