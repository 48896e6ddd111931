"""A command ends at once: nothing is taken down object by object, and all that it owes others is done."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from trace_assets.system import processes

PROGRAM = """
import atexit, os, sys, threading, time
from trace_assets.cli import command
sys.argv = ["trace", *sys.argv[1:]]

class Kept:
    def __del__(self):
        os.write(2, b"taken down\\n")

kept = Kept()
kept.itself = kept
atexit.register(lambda: print("registered"))
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
{}
"""


def ended(call: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that keeps an object, and a thread for a while, and then ends by a call."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(call), *arguments], capture_output=True, text=True, timeout=300
    )


def test_a_command_takes_nothing_down() -> None:
    done = ended("command()", "--version")
    assert done.returncode == 0 and "taken down" not in done.stderr
    assert "taken down" in ended("sys.exit(0)").stderr, "nothing would have told"


def test_threads_end_and_what_was_registered_runs_before() -> None:
    said = ended("command()", "--version").stdout.splitlines()
    assert said[0].startswith("trace-assets ") and said[1:] == ["thread", "registered"]


def test_the_exit_code_is_the_commands() -> None:
    done = ended("command()", "no-such-command")
    assert done.returncode == 2 and "No such command" in done.stderr


@pytest.mark.parametrize(("code", "becomes"), [("None", 0), ("3", 3), ("'a sentence'", 1), ("256 + 7", 7)])
def test_any_exit_code_stays_what_it_is(code: str, becomes: int) -> None:
    call = f"from trace_assets.system.processes import end_at_once; end_at_once({code}); sys.exit({code})"
    done = ended(call)
    assert done.returncode == becomes and "taken down" not in done.stderr
    assert ("a sentence" in done.stderr) == ("sentence" in code)


def test_a_child_that_was_forked_meanwhile_ends_as_it_likes() -> None:
    call = (
        "from trace_assets.system.processes import end_at_once; end_at_once(0)\n"
        "if (child := os.fork()) == 0:\n    sys.exit(5)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert "5" in ended(call).stdout.splitlines()


WORKS = """
import os, signal, sys, time
from trace_assets.cli import command
# Whatever these tests themselves were started with.
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "nohup" else signal.SIG_DFL)

def work(**_):
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.2)
    finally:
        print("ended in good order")

sys.modules["trace_assets.cli.main"].app = work
command()
"""


@pytest.mark.parametrize(("how", "code"), [("closed", 130), ("nohup", 0)])
def test_a_terminal_that_is_closed_interrupts_what_did_not_ask_to_outlive_it(how: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", WORKS, how], capture_output=True, text=True, timeout=300)
    assert done.returncode == code and done.stdout == "ended in good order\n"
    assert ("interrupted" in done.stderr) == (how == "closed")


def test_whatever_was_not_printed_yet_is_printed() -> None:
    lines = ended("print('x' * 100_000); command()", "--version").stdout.splitlines()
    assert lines[0] == "x" * 100_000


def test_a_process_that_is_not_a_command_ends_as_ever() -> None:
    assert processes._owed is None and gc.isenabled()
