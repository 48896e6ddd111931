"""Serves a target module over a pipe: `python serve.py MODULE`, in the module's own interpreter.

Runs wherever the target's packages are installed, so it needs nothing but the standard library (3.9 or
later). One JSON object a line: requests `{"id", "op", ...}` on standard input, replies `{"id", "ok"}` or
`{"id", "fault", "message"}` on what was standard output. The target's own prints go to standard error.

A process serves one episode at a time; whoever wants several starts several processes. A target module
defines

    describe(options) -> {"name", "version", "policy", "tools", ...}     called once, before anything else
    tasks() -> {"discovery": [task, ...], "validation": [...], "test": [...]}
    reset(task, seed) -> {"messages": [...]} and, where tools differ by task, "tools"
    step(message) -> {"messages": [...], "done": bool, "truncated": bool}
    verdict() -> {"reward": float | None, "success": bool | None, "checks": [...]}

and may define `oracle(task) -> [message, ...]`, `close()` and any function named in its list `OPERATIONS`,
which is then called with the request's keyword arguments. An exception with an attribute `fault` ("user",
"infrastructure" or "input") says whose fault it is; any other is the environment's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from typing import Any

PROTOCOL = 1
LIFELINE = "TRACE_LIFELINE"
"""Names the descriptor of a pipe whose other end only the host holds."""


def die_with_host() -> None:
    """Let the kernel kill this process when the host is gone, however deep in a call it is."""
    if LIFELINE not in os.environ:
        return
    lifeline = int(os.environ[LIFELINE])
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def load(path: str) -> Any:
    """Import a target module from its file, its folder importable."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("trace_target", path)
    if spec is None or spec.loader is None:
        raise ImportError(path + " is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["trace_target"] = module
    spec.loader.exec_module(module)
    return module


def answer(module: Any, request: dict[str, Any]) -> Any:
    """Carry out one request."""
    op = request["op"]
    if op == "describe":
        described = module.describe(request.get("options") or {})
        described["python"] = sys.version.split()[0]
        described["protocol"] = PROTOCOL
        described["has_oracle"] = hasattr(module, "oracle")
        return described
    if op == "tasks":
        return module.tasks()
    if op == "reset":
        return module.reset(request["task"], request["seed"])
    if op == "step":
        return module.step(request["message"])
    if op == "verdict":
        return module.verdict()
    if op == "oracle":
        return module.oracle(request["task"])
    if op in getattr(module, "OPERATIONS", ()):
        return getattr(module, op)(**request.get("arguments", {}))
    raise ValueError("there is no operation '" + str(op) + "'")


def main(path: str) -> None:
    """Answer requests until standard input ends."""
    die_with_host()
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    # The pipe is nobody else's: what the target prints must not stand among the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), encoding="utf-8", newline="\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    module = None
    for line in requests:
        request = json.loads(line)
        try:
            if module is None:
                module = load(path)
            reply = {"id": request["id"], "ok": answer(module, request)}
            text = json.dumps(reply, allow_nan=False)
        except Exception as error:
            fault = getattr(error, "fault", "environment")
            message = type(error).__name__ + ": " + str(error)
            text = json.dumps({"id": request["id"], "fault": str(fault), "message": message[:2000]})
        replies.write(text + "\n")
        replies.flush()
    if module is not None and hasattr(module, "close"):
        module.close()


if __name__ == "__main__":
    main(sys.argv[1])
