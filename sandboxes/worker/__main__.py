"""The only program of the sandbox: it serves episodes of one environment module to the host.

Standard library only. There are three kinds of processes, and the environment's code runs in the last alone:

- The *supervisor*, the first process, speaks with the host, keeps account of the others, and is the only one
  whose word on them counts (`supervisor.py`).
- The *zygote* compiles the source, imports what it names, stops its own clock, and forks. It counts nothing
  and remembers nothing: what is forked from it, early or late, finds the same memory (`zygote.py`).
- A *leaf* executes the module, serves one episode on a descriptor of its own and exits (`leaf.py`). Before
  its first request it gives up every system call but those that read and write that descriptor and manage its
  own memory (`machine.py`): there is no file, clock, timer, process, name or random number that it could ask
  for. Seed and actions are all that decides what it does; nothing outlives an episode or reaches another.

Newline-delimited JSON, one request in flight on a descriptor. Requests are `{"id", "op", ...}`, replies
`{"id", "ok"}` or `{"id", "err", "msg"}`. The supervisor answers `load` (`source`, `leaf_bytes`, and the
conditions `clock`, `process`, `sealed`), `ping`, `fate` (`session`: how a leaf ended) and `alive` (the
sessions whose leaf has not ended). A leaf answers one of `tools`, `oracle` (`seed`) and `reset` (`seed`), and
after `reset` also `step` (`message`), `verdict` and `end`. With `--connect PATH` or `--fd N` the host orders
a leaf by `leaf` (`session`, and a descriptor along with it; no reply) and speaks to it on that descriptor.
With `--stdio` there is one stream: requests carry `session`, the supervisor passes them on, and puts `>`
before what a leaf has written.
"""

import os
import sys

AGAIN = "--again"


def lay_out_memory_alike():
    """Begin again without the random addresses by which an object could tell one sandbox from another."""
    try:
        import ctypes

        personality, none = ctypes.CDLL(None).personality, 0x0040000  # ADDR_NO_RANDOMIZE
        now = personality(ctypes.c_ulong(0xFFFFFFFF))
        if now < 0 or now & none or personality(ctypes.c_ulong(now | none)) < 0:
            return
        at = len(sys.orig_argv) - len(sys.argv) + 1
        os.execv(sys.executable, [*sys.orig_argv[:at], AGAIN, *sys.orig_argv[at:]])
    except (ImportError, OSError, AttributeError):
        return


if __name__ == "__main__":
    if sys.argv[1:2] != [AGAIN]:
        lay_out_memory_alike()
    from supervisor import main

    main([one for one in sys.argv[1:] if one != AGAIN])
