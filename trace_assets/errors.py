"""The failures a person is told about: each is one sentence and one exit code."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Collection
from functools import cache

from trace_assets.untrusted.printable import printable

FULL_DISK = ("no space left on device", "disk quota exceeded", "database or disk is full")
"""What an error of a full disk says, in small letters."""

PRINTED = "what is printed"
"""The name of a standard stream in an error, where a file's would stand."""


class TraceError(Exception):
    """A failure with a message made for the person at the terminal.

    The message says what went wrong, where, and how to mend it. The command line prints it without
    a traceback and exits with `exit_code`.
    """

    exit_code: int = 3

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class InputError(TraceError):
    """The user's file, configuration, row or argument is not usable (exit code 2)."""

    exit_code = 2


class CheckFailed(TraceError):
    """The work ran, and a check that guards what comes next did not pass (exit code 1)."""

    exit_code = 1


class Unavailable(TraceError):
    """A service or optional package that the work needs is not there (exit code 3)."""

    exit_code = 3


class UserFault(TraceError):
    """The simulated user of an episode failed: not the agent's doing (exit code 1)."""

    exit_code = 1


def did_you_mean(name: str, known: Collection[str], otherwise: str = ".", most: int = 1) -> str:
    """Return how a sentence about a name that there is not ends: with the nearest names that there are.

    Args:
        name: What was given.
        known: Names that there are; of equally near ones the later is named.
        otherwise: The end of the sentence where none is near.
        most: So many are named.

    >>> did_you_mean("min_gp", ["min_gap", "budget"]), did_you_mean("x", [], "; there are none.")
    ("; did you mean 'min_gap'?", '; there are none.')
    """
    from difflib import get_close_matches  # most commands name nothing wrong

    return said_as_meant(get_close_matches(name, list(known), most), otherwise)


def said_as_meant(near: Collection[str], otherwise: str = ".") -> str:
    """Return the same end of a sentence for names that are known to be near."""
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else otherwise


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Fail with the install command when an optional package is missing.

    Args:
        module: Import name to look for, such as `torch`.
        extra: Extra of this project that brings it, such as `train`.
        purpose: What the package was needed for, to complete "... needs".

    Raises:
        Unavailable: The module cannot be found.
    """
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise Unavailable(
            f"{purpose} needs the package '{module}', which is not installed: run `{install_command(extra)}`."
        )


def install_command(extra: str) -> str:
    """Return what installs an extra beside this very copy: from the checkout or file that it came from.

    Args:
        extra: Extras of this project, such as `train` or `train,serve`.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("trace-assets").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{url.removeprefix('file://')}[{extra}]'"
    return f"pip install 'trace-assets[{extra}] @ {url}'" if url else f"pip install 'trace-assets[{extra}]'"


def plain_warnings() -> None:
    """Print warnings as one line for a person, without the place in the code that they came from."""
    warnings.formatwarning = lambda message, *_, **__: f"trace: {message}\n"


@cache  # a worker begins many items
def plain_interrupts() -> None:
    """Have an interruption that meets a library while it tidies up print none of the library's tracebacks.

    SQLAlchemy logs what keeps it from closing a connection, and lets the interruption go on. Python prints
    what keeps an object from being taken away and goes on: there the interruption comes again.
    """
    import logging  # most commands log nothing

    def speaks(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))

    if logging.lastResort is not None:
        logging.lastResort.addFilter(speaks)
    told = sys.unraisablehook

    def tell(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            told(unraisable)
        elif not sys.is_finalizing():
            threading.Timer(SOON, _interrupt).start()

    sys.unraisablehook = tell


SOON = 0.05
"""Seconds until an interruption that was swallowed comes again: not while the object is still taken away."""


def _interrupt() -> None:
    main = threading.main_thread().ident
    assert main is not None, "it was started with the process"
    for sign in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(sign) is signal.default_int_handler:
            # A signal, and not `_thread.interrupt_main`: that one waits until a sleep, or a read, is over.
            signal.pthread_kill(main, sign)
            return
