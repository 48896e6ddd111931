"""Stands in for the program `tau2`: takes its arguments, writes its results file, can be told to fail.

Only what its keeper needs: nobody converses here. `PRETEND_FAULT` says what goes wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def after(flag: str) -> str:
    """Return the argument after a flag."""
    return sys.argv[sys.argv.index(flag) + 1]


def simulation(task: str, trial: int) -> dict[str, Any]:
    """Return a finished conversation."""
    message = {"role": "assistant", "content": "Hi! How can I help you today?", "turn_idx": 0}
    return {
        "id": f"{task}-{trial}",
        "task_id": task,
        "trial": trial,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0, "info": None},
        "messages": [message],
        "pid": os.getpid(),
    }


def main() -> None:
    """Play what is not played yet."""
    fault = os.environ.get("PRETEND_FAULT", "")
    folder = Path(after("--save-to"))
    file = folder / "results.json"
    tasks = sys.argv[sys.argv.index("--task-ids") + 1 :]
    found = json.loads(file.read_text()) if file.exists() else {"tasks": [], "simulations": []}
    found["tasks"] = [{"id": task} for task in tasks]
    done = {(one["task_id"], one["trial"]) for one in found["simulations"]}
    for trial in range(int(after("--num-trials"))):
        for task in tasks:
            if (task, trial) in done or (fault == "leaves_out" and task == tasks[-1]):
                continue
            if fault == "hangs" and found["simulations"]:
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
                (folder / "pids").write_text(f"{os.getpid()} {child.pid}")
                time.sleep(600)
            found["simulations"].append(simulation(task, trial))
            file.write_text(json.dumps(found))
    if fault == "fails":
        print("Traceback ...\nValueError: Tasks were modified: ['7']\nbye")
        sys.exit(3)


if __name__ == "__main__":
    main()
