"""How much a command says: `--quiet`, `--verbose`, and a line every 15 s where no terminal shows bars."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

import click
from typer.core import TyperOption

PANEL = "Common options"
"""Where the help lists what every command takes."""
SILENCE_SECONDS = 15.0
"""After so long without a word a command says that it is at work, where it cannot draw bars."""


class Loudness(IntEnum):
    """What is printed beside results, warnings and what went wrong."""

    quiet = 0
    """Nothing."""
    normal = 1
    """Every finished item, with its reason."""
    verbose = 2
    """Also what begins, where home and settings were found, and of a failure where it arose."""


_chosen = Loudness.normal


def loudness() -> Loudness:
    """Return what was chosen for this process."""
    return _chosen


def choose(wanted: Loudness) -> None:
    """Choose for this process."""
    global _chosen
    _chosen = wanted


def _on_quiet(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        choose(Loudness.quiet)


def _on_verbose(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        choose(Loudness.verbose)


def loudness_options() -> list[click.Option]:
    """Return the options `--quiet` and `--verbose`, which take effect as they are read."""
    return [
        TyperOption(
            param_decls=["--quiet", "-q"],
            is_flag=True,
            expose_value=False,
            callback=_on_quiet,
            help="Print results, warnings and what went wrong, and nothing else.",
            rich_help_panel=PANEL,
        ),
        TyperOption(
            param_decls=["--verbose", "-v"],
            is_flag=True,
            expose_value=False,
            callback=_on_verbose,
            help="Say also what begins, which home and settings count, and where an error arose.",
            rich_help_panel=PANEL,
        ),
    ]


class Heartbeat:
    """Says on standard error that the work goes on, after each stretch of silence.

    Args:
        words: What is at work, when no part of the program has said it more closely.
        seconds: Of silence.
    """

    def __init__(self, words: str, seconds: float) -> None:
        self.seconds = seconds
        self.begun = self.heard = time.monotonic()
        self.describe: Callable[[], str] = lambda: words
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Fall silent, for good."""
        self._stop.set()

    def _beat(self) -> None:
        while not self._stop.wait(max(self.heard + self.seconds - time.monotonic(), self.seconds / 30)):
            now = time.monotonic()
            if now - self.heard < self.seconds:
                continue
            self.heard = now
            if _chosen == Loudness.quiet:
                continue
            locks = sys.modules.get("trace_assets.store.locks")
            words = (locks.waiting_words() if locks else "") or self.describe()
            line = f"… {words}, for {now - self.begun:.0f} s"
            print(line, file=sys.stderr, flush=True)


_beating: Heartbeat | None = None


@contextmanager
def heartbeat(words: str) -> Iterator[None]:
    """Break silences of `SILENCE_SECONDS` while the body runs; a terminal shows bars, and is left alone."""
    global _beating
    if sys.stderr.isatty():
        yield
        return
    _beating = Heartbeat(words, SILENCE_SECONDS)
    _beating.start()
    try:
        yield
    finally:
        _beating.stop()
        _beating = None


def heard() -> None:
    """Note that something was printed."""
    if _beating is not None:
        _beating.heard = time.monotonic()


@contextmanager
def described(describe: Callable[[], str]) -> Iterator[None]:
    """Have the lines say what is at work while the body runs."""
    beating = _beating
    if beating is None:
        yield
        return
    before, beating.describe = beating.describe, describe
    try:
        yield
    finally:
        beating.describe = before
