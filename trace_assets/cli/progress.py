"""What a sync looks like at the terminal: one line a finished item, bars for those at work."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trace_assets.cli.loudness import Loudness, described, loudness
from trace_assets.cli.options import choose_answer
from trace_assets.cli.options import console as make_console
from trace_assets.definitions import graph
from trace_assets.errors import TraceError
from trace_assets.orchestration.forecast import Scope
from trace_assets.orchestration.instance import prepare_instance, register_batches
from trace_assets.orchestration.materialization import Outcome
from trace_assets.orchestration.planner import NEVER, Item, Step
from trace_assets.orchestration.recovery import RecoveryReport
from trace_assets.orchestration.sync import open_pool, sync
from trace_assets.orchestration.sync_run import Answer, AtRisk, Synced
from trace_assets.report.formatting import count
from trace_assets.store.locks import Holder
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.system.progress import PROGRESS_DIR
from trace_assets.targets.registry import check_named
from trace_assets.workflows.made_with import made_otherwise


def run_sync(
    study: Study,
    selection: Iterable[str] | None = None,
    batches: Iterable[str] | None = None,
    *,
    live: bool = False,
    quiet: bool = False,
    jobs: int | None = None,
    force: Mapping[str, object] | None = None,
    again: Iterable[Item | str] = (),
    wait: bool = True,
    plays: Collection[str] | None = None,
    everything: bool = False,
    yes: bool = False,
    keep: bool = False,
    without: Collection[str] = (),
) -> Synced:
    """Bring a study up to date and show how it goes.

    Args:
        study: What to work on.
        selection: Asset names; None takes all.
        batches: Task batches; None takes all.
        live: Make the live target's own batch known first.
        quiet: Print only what went wrong.
        jobs: Items at once.
        force: Task batches whose `tasks` and `trajectories` are due because their inbox changed.
        again: Items to make once more though they look fresh, also in the place of finished work; of names
            of assets only those that are due.
        wait: Wait for another sync on the same home rather than refuse.
        plays: Task batches that may be rolled out; None for all of the live target's.
        everything: Also the loop of a live target that nothing in the store belongs to.
        yes: Replace finished work that is due without asking.
        keep: Leave it as it is without asking.
        without: Assets to leave out.
    """
    scope = Scope(study, selection, plays=plays, everything=everything, without=without)
    if live and scope.live:
        check_named(study.settings.targets)  # at once, and not after hours at the first item that plays it
    console = make_console(stderr=True)
    new = {Item(asset, batch): "new files" for batch in force or {} for asset in ("tasks", "trajectories")}
    once_more = list(again)
    quiet = quiet or loudness() == Loudness.quiet
    lines = _Lines(console, quiet)
    with ExitStack() as stack:
        pool = stack.enter_context(open_pool(study, jobs))
        announce(study.home)  # after it: only a cluster's pool can tell whether workers of other nodes live
        environment, paused = stack.enter_context(_bars(console, quiet, study.home.path, lines))
        instance = stack.enter_context(prepare_instance(study.home))
        register_batches(instance, study, live=live and scope.live)
        return sync(
            graph(study),
            instance,
            study,
            {**study_environment(), **_place_of(study), **environment},
            selection=selection,
            partitions=batches,
            jobs=jobs,
            force={**new, **{one: "asked for" for one in once_more if isinstance(one, Item)}},
            listen=_Sender(lines, console),
            waiting=_waiting(console) if wait else None,
            mended=_mended(console, quiet),
            standing=scope,
            again={str(one) for one in once_more},
            ask=ask_about(console, yes=yes, keep=keep, paused=paused),
            pool=pool,
        )


def _mended(console: Console, quiet: bool) -> Callable[[RecoveryReport], None]:
    def say(recovered: RecoveryReport) -> None:
        if quiet:
            return
        if recovered:
            console.print(
                f"[dim]work was interrupted here; put right: {escape(str(recovered))}[/]", soft_wrap=True
            )
        if recovered.hashed:
            console.print(
                f"[dim]{len(recovered.hashed):,} files had no content hash yet: taken as they are[/]",
                soft_wrap=True,
            )

    return say


def _waiting(console: Console) -> Callable[[Holder | None], None]:
    def say(holder: Holder | None) -> None:
        who = f" ({holder})" if holder else ""
        console.print(
            f"another `trace sync` is at work here{escape(who)}; waiting for it, Ctrl-C to give up",
            soft_wrap=True,
        )

    return say


def study_environment() -> dict[str, str]:
    """Return the variables that make a worker open the study of this process."""
    names = ("TRACE_HOME", "TRACE_CONFIG", "TRACE_SET", "DAGSTER_HOME")
    return {name: os.environ[name] for name in names if name in os.environ}


def _place_of(study: Study) -> dict[str, str]:
    """Return the variables that lead a worker to this study's home: a later round's is not this process's."""
    return {"TRACE_HOME": str(study.home.path), "DAGSTER_HOME": str(study.home.dagster)}


class _Lines:
    """Prints a line for each end."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        self.reasons: dict[Item, str] = {}
        self.at_work: dict[Item, float] = {}

    def __call__(self, event: str, item: Item, what: Step | Outcome) -> None:
        if isinstance(what, Step):
            self.reasons[item] = what.reason
            self.at_work[item] = time.monotonic()
            if loudness() == Loudness.verbose:
                self.console.print(f"[dim]→ {escape(str(item))} ({escape(what.reason)})[/]", soft_wrap=True)
            return
        self.at_work.pop(item, None)
        if not what.made:
            self.console.print(f"[red]✗[/] {escape(str(item))}: {escape(what.error)}", soft_wrap=True)
        else:
            if not self.quiet and not self._is_first_settings(item):
                rows = "" if what.rows is None else f"{what.rows} rows, "
                why = escape(self.reasons.get(item, ""))
                mark = "[yellow]○[/]" if what.is_empty else "[green]✓[/]"
                self.console.print(
                    f"{mark} {escape(str(item))}  [dim]{rows}{what.seconds:.1f} s ({why})[/]",
                    soft_wrap=True,
                )
            for text in what.failed_checks:
                self.console.print(f"  [red]check failed[/] {escape(text)}", soft_wrap=True)
            if not self.quiet:
                for text in what.warnings:
                    self.console.print(f"  [yellow]warning[/] {escape(text)}", soft_wrap=True)

    def _is_first_settings(self, item: Item) -> bool:
        """Whether settings are written for the first time: no news but for those who want every line."""
        first = self.reasons.get(item) == NEVER
        return first and item.asset.startswith("config/") and loudness() != Loudness.verbose


SENDING_SECONDS = 60.0
"""At least so long lies between two sendings of a home while a sync goes on."""


class _Sender:
    """Sends what a sync has made of a home in an object store, whenever nothing is being made."""

    def __init__(self, lines: _Lines, console: Console, seconds: float = SENDING_SECONDS) -> None:
        self.lines, self.console, self.seconds = lines, console, seconds
        self.last = time.monotonic()

    def __call__(self, event: str, item: Item, what: Step | Outcome) -> None:
        self.lines(event, item, what)
        module = sys.modules.get("trace_assets.store.objects.work")
        if module is None or self.lines.at_work or time.monotonic() < self.last + self.seconds:
            return
        try:
            module.send_meanwhile()
        except TraceError as error:
            self.console.print(f"[yellow]not sent yet[/]: {escape(str(error))}", soft_wrap=True)
        self.last = time.monotonic()


Paused = Callable[[], AbstractContextManager[None]]
"""Holds the bars back while its context is open."""


@contextmanager
def _bars(
    console: Console, quiet: bool, home: Path, lines: _Lines
) -> Iterator[tuple[dict[str, str], Paused]]:
    """Draw the bars that worker processes report, until the body ends.

    They report into the home: what a killed process leaves there is removed with its other half-made files.
    Without a terminal the same is told in words now and then.
    """
    if quiet and sys.stderr.isatty():
        yield {PROGRESS_DIR: ""}, nullcontext
        return
    with TemporaryDirectory(dir=home, prefix=".progress-", suffix=".partial") as folder:
        if not sys.stderr.isatty():
            with described(lambda: _at_work(Path(folder), lines)):
                yield {PROGRESS_DIR: folder}, nullcontext
            return
        stop = threading.Event()
        with Live(console=console, refresh_per_second=5, transient=True) as live:

            @contextmanager
            def paused() -> Iterator[None]:
                live.stop()
                try:
                    yield
                finally:
                    live.start()

            def watch() -> None:
                while not stop.wait(0.2):
                    live.update(_draw(Path(folder)))

            thread = threading.Thread(target=watch, daemon=True)
            thread.start()
            try:
                yield {PROGRESS_DIR: folder}, paused
            finally:
                stop.set()
                thread.join()


def _at_work(folder: Path, lines: _Lines) -> str:
    """Return in words what is being made, and how far it is."""
    now = time.monotonic()
    items = [f"{item} since {now - since:.0f} s" for item, since in list(lines.at_work.items())]
    counts = []
    for state in _states(folder):
        of = f"/{state['total']}" if state["total"] else ""
        counts.append(f"{state['title']} {state['done']}{of} {state['note']}")
    return "; ".join([", ".join(items) or "looking what is due", *(one.strip() for one in counts)])


def _states(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        try:
            yield json.loads(file.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            continue


def _draw(folder: Path) -> Group:
    grid = Table.grid(padding=(0, 1))
    for state in _states(folder):
        total = state["total"] or 0
        grid.add_row(
            Text(state["title"]),
            ProgressBar(total=total or None, completed=state["done"], width=30, pulse=not total),
            Text(f"{state['done']}/{total}" if total else str(state["done"])),
            Text(state["note"], style="dim"),
        )
    return Group(grid)


# What a person is told, and asked, about finished work that is due.


SHOWN = 12
"""Items that are told one by one."""


def ask_about(
    console: Console,
    *,
    yes: bool = False,
    keep: bool = False,
    paused: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Callable[[Sequence[AtRisk]], Answer]:
    """Return what decides about finished work that is due: an option, or the person at the terminal.

    Without a terminal nobody is asked and nothing replaced.

    Args:
        console: Where the question goes.
        yes: `--yes` was said.
        keep: `--keep` was said.
        paused: Holds back what else is drawn meanwhile.
    """

    def ask(found: Sequence[AtRisk]) -> Answer:
        if keep or yes:
            return "keep" if keep else "replace"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return "stop"
        with paused():
            console.print("Finished work would be made again, and what is there replaced:")
            tell(found, console)
            said = choose_answer(
                "Replace it, keep it and go on with the rest, or stop?", ("replace", "keep", "stop"), "stop"
            )
        answers: dict[str, Answer] = {"replace": "replace", "keep": "keep"}
        return answers.get(said, "stop")

    return ask


def tell(found: Sequence[AtRisk], console: Console) -> None:
    """Print one line an item."""
    for one in found[:SHOWN]:
        item, work, why = (escape(str(part)) for part in (one.item, one.work, one.why))
        console.print(f"  {item}: {work} [dim]({why})[/]", soft_wrap=True)
    if len(found) > SHOWN:
        console.print(f"  and {count(len(found) - SHOWN, 'more item')}")


def refused(found: Sequence[AtRisk]) -> str:
    """Say that nothing finished was replaced, and which options there are."""
    names = " ".join(f"--again {name}" for name in _assets(found))
    return (
        f"finished work is not replaced unasked: {_summary(found)}. Say `{names}` to have it made again, "
        "`--yes` to have everything made that is due, or `--keep` to leave what is finished as it is and "
        "bring the rest up to date."
    )


def _summary(found: Sequence[AtRisk]) -> str:
    first = found[0]
    more = f", and {count(len(found) - 1, 'more item')}" if len(found) > 1 else ""
    return f"{first.item} ({first.work}; {first.why}){more}"


def _assets(found: Sequence[AtRisk]) -> list[str]:
    """Return the shortest names: an asset stands for all of its partitions."""
    items: dict[str, list[str]] = {}
    for one in found:
        items.setdefault(one.item.asset, []).append(str(one.item))
    return [own[0] if len(own) == 1 else asset for asset, own in items.items()]


def tell_settings(study: Study, console: Console | None = None) -> None:
    """Say of stored rollouts that were made with other settings that they were."""
    console = console or make_console(stderr=True)
    for words in made_otherwise(study):
        console.print(f"[yellow]note[/] {escape(words)}", soft_wrap=True)
