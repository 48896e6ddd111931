"""Training in a process of its own, asked and heard through Dagster Pipes.

Run as `python -m trace_assets.assets.training_process`, in the interpreter that the settings name. What it
makes are files (the adapter's folder, moved in whole); what it says are messages: each iteration's point, the
end, or why there is none.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from dagster_pipes import PipesContext, open_dagster_pipes

from trace_assets.errors import TraceError
from trace_assets.lifeline import ask_to_end_with_parent
from trace_assets.records import TrainingPoint
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study

OnPoint = Callable[[TrainingPoint], None]
Make = Callable[[dict[str, Any], OnPoint], dict[str, Any] | None]
"""Takes the request and a listener; makes files; returns what was recomputed, None without a sandbox."""


class _Ended(BaseException):
    """SIGTERM: a cancelled run, or a parent that is gone."""


def answer(make: Make) -> int:
    """Do what the parent asked for, and return the exit code.

    On SIGTERM, which also comes when the parent is gone, open contexts are left (sandboxes are closed) and
    then the whole process group is killed: what a training started does not outlive it.

    Args:
        make: Does the work.
    """
    signal.signal(signal.SIGTERM, _end)
    ask_to_end_with_parent()
    try:
        with open_dagster_pipes() as pipes:
            request: dict[str, Any] = dict(pipes.extras)
            if os.getppid() != request["parent"]:
                raise _Ended  # it died before the signal was asked for
            return _make(make, request, pipes)
    except _Ended:
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        return 143


def _make(make: Make, request: dict[str, Any], pipes: PipesContext) -> int:
    def tell(point: TrainingPoint) -> None:
        pipes.report_custom_message({"point": point.model_dump(mode="json")})

    try:
        recomputed = make(request, tell)
    except TraceError as error:
        pipes.report_custom_message({"failed": str(error), "exit_code": error.exit_code})
        return error.exit_code
    pipes.report_custom_message({"done": True, "recomputed": recomputed})
    return 0


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


def _train(request: dict[str, Any], on_point: OnPoint) -> dict[str, Any] | None:
    from trace_assets.stages.training import MIXED, make_adapter, make_mixed

    study = Study(Home.open(request["home"]), Settings.model_validate_json(request["settings"]))
    if request["name"] == MIXED:
        make_mixed(study, on_point)
        return None
    return asdict(make_adapter(study, request["name"], on_point)[2])


if __name__ == "__main__":
    sys.exit(answer(_train))
