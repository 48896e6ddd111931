"""One process, one execution of the module, one episode."""

import os
import sys

from wire import Lines, describe, err, ok, write_all

FUNCTIONS = ("tools", "reset", "step", "verdict", "oracle")
FIRST = ("tools", "oracle", "reset")


class Leaf:
    """One process, one execution of the module, one episode."""

    def __init__(self, code, fd, process):
        self.code, self.fd, self.process = code, fd, process

    def serve(self):
        """Answer the requests of one episode; not a line of the module runs before the first of them."""
        lines, allowed = Lines(self.fd), FIRST
        request, _fds = lines.next()
        if request is None:
            return None
        if self.process:
            be_like_every_other(request.get("seed", 0), self.process)
        try:
            module = type(sys)("environment")
            sys.modules["environment"] = module
            exec(self.code, module.__dict__)
            missing = [name for name in FUNCTIONS if not callable(module.__dict__.get(name))]
            if missing:
                raise AttributeError(f"the module defines no {', '.join(missing)}")
        except BaseException as error:
            return write_all(
                self.fd, err(request, "environment", f"while the module was executed: {describe(error)}")
            )
        while request is not None:
            op = request["op"]
            if op == "end":
                return write_all(self.fd, ok(request, None))
            if op not in allowed:
                return write_all(self.fd, err(request, "order", f"'{op}' may not come now"))
            write_all(self.fd, self.answer(module, request))
            allowed = ("step", "verdict") if op in ("reset", "step") else ()
            request, _fds = lines.next()

    def answer(self, module, request):
        """Call the environment's function of the request's name."""
        op = request["op"]
        try:
            if op in ("reset", "oracle"):
                sys.modules["random"].seed(request["seed"])
            argument = {"step": "message", "reset": "seed", "oracle": "seed"}.get(op)
            function = getattr(module, op)
            value = function(request[argument]) if argument else function()
        except BaseException as error:
            return err(request, "environment", f"in {op}: {describe(error)}")
        return ok(request, value)


def be_like_every_other(seed, process):
    """Let Python's own words for chance and process be the same in every leaf of a seed.

    The kernel's are refused by the filter; these keep modules working that ask for them.
    """
    chance = sys.modules["random"].Random(f"chance/{seed}")
    os.urandom = sys.modules["random"]._urandom = chance.randbytes
    os.getpid = sys.modules["posix"].getpid = lambda: process
    os.getppid = sys.modules["posix"].getppid = lambda: 1
    os.times = sys.modules["posix"].times = lambda: os.times_result((0.0, 0.0, 0.0, 0.0, 0.0))
