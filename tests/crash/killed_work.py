"""Does work in processes of its own, and kills each of them twice at moments that are drawn.

    killed_work.py training|tournament FOLDER KILLS SEED

Prints a line of JSON for the work that nobody disturbs, then one for each that was killed and gone on with.
Importing takes longer than the work: the processes are forked from one that has imported and done nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_assets.records import TrainingPoint

Work = Callable[[Path], dict[str, Any]]


def begin(work: Work, place: Path) -> int:
    """Work in a forked process, which leaves what came of it beside the place; return its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        place.with_suffix(".said").write_text(json.dumps(work(place)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def finish(work: Work, place: Path) -> tuple[dict[str, Any], float]:
    """Work to the end, and return what was said and the seconds of processor that it took."""
    place.with_suffix(".said").unlink(missing_ok=True)
    _, code, used = os.wait4(begin(work, place), 0)
    assert code == 0, f"it ended with {code}"
    return json.loads(place.with_suffix(".said").read_text()), used.ru_utime + used.ru_stime


def kill(work: Work, place: Path, after: float) -> None:
    """Work for so many seconds of processor at the most: the clock says little on a busy machine."""
    process, tick = begin(work, place), os.sysconf("SC_CLK_TCK")
    while os.waitpid(process, os.WNOHANG)[0] == 0:
        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
        if sum(map(int, times)) / tick >= after:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return
        time.sleep(0.002)


def main(kind: str, folder: Path, kills: int, seed: int) -> None:
    """Work once, then with kills."""
    work, state = {"training": training, "tournament": tournament}[kind](folder)
    undisturbed, seconds = finish(work, folder / "undisturbed")
    print(json.dumps(undisturbed), flush=True)
    chance = random.Random(seed)
    for number in range(kills):
        place = folder / f"killed-{number}"
        for _ in range(2):
            kill(work, place, chance.uniform(0.02, 0.6) * seconds)
        before = state(place)
        print(json.dumps({**finish(work, place)[0], "before": before}), flush=True)


def training(folder: Path) -> tuple[Work, Work]:
    """Return what trains the word adapter, and what tells how far it has come."""
    import torch
    import trl  # noqa: F401

    from tests.training import word_target
    from trace_assets.training import grpo  # noqa: F401

    torch.set_num_threads(1)
    base = word_target.write_base(folder / "base")

    def work(place: Path) -> dict[str, Any]:
        told: list[int] = []

        def on_point(point: TrainingPoint) -> None:
            told.append(point.iteration)

        adapter, points = word_target.train(base, place, on_point=on_point)
        curve = [one.model_dump(mode="json", exclude=set(TrainingPoint.volatile)) for one in points]
        return {"result": [adapter.adapter_id, curve], "first": told[:1]}

    def state(place: Path) -> dict[str, Any]:
        whole = place.parent.glob(f".{place.name}.work/checkpoints/*/complete")
        saved = max((int(one.parent.name.rpartition("-")[2]) for one in whole), default=0)
        half_made = place.exists() and not (place / "adapter_model.safetensors").is_file()
        return {"done": place.exists(), "half_made": half_made, "saved": saved}

    return work, state


def tournament(folder: Path) -> tuple[Work, Work]:
    """Return what plays a tournament whose worlds are scripted, and what tells how far it has come."""
    from tests.tournament.test_tournament import RATES, scripted
    from trace_assets.tournament.page import page
    from trace_assets.tournament.plan import PLAN, default_plan, write_plan
    from trace_assets.tournament.run import is_finished, run
    from trace_assets.tournament.score import score

    def work(place: Path) -> dict[str, Any]:
        if not (place / PLAN).is_file():
            write_plan(place, default_plan(4, 5, {}))
        played = run(place, play=scripted(RATES))
        lines = page(score(place)).splitlines()
        return {"result": [line for line in lines if not line.startswith("Registered ")], "played": played}

    def state(place: Path) -> dict[str, Any]:
        return {"finished": [number for number in range(1, 5) if is_finished(place, number)]}

    return work, state


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
