"""Rounds at the terminal: one sync after the other, each on a home of its own, and the whole at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape

from trace_assets.cli.progress import run_sync
from trace_assets.orchestration.planner import Item
from trace_assets.orchestration.sync_run import Synced
from trace_assets.study import Study
from trace_assets.workflows.rounds import SEALED, begin_round, played_rounds, rounds_of

AGENT = "round_agent"


def plays_rounds(study: Study) -> bool:
    """Whether a sync of this home is one of rounds: the study's own, asked to play several."""
    return study.round == 1 and study.settings.rounds.most > 1


def sync_rounds(
    study: Study, console: Console, *, again: Iterable[Item] = (), quiet: bool = False, **options: Any
) -> Synced:
    """Bring all rounds up to date in their order, then what is made of all of them.

    A round whose agent is not up to date, for a failure or for finished work that was to be kept, ends it:
    no later one is begun on something else.

    Args:
        study: The study, whose home is the first round's.
        console: Where the rounds are announced.
        again: Items to make once more in the first round, or of the whole.
        quiet: Announce nothing.
        options: For `run_sync`.

    Returns:
        What was done in all of them.
    """
    once_more, whole = list(again), Synced()
    now = study
    while True:
        own = [item for item in once_more if item.asset not in SEALED] if now is study else []
        _announce(console, f"round {now.round} of at most {study.settings.rounds.most}", quiet)
        synced = run_sync(now, without=SEALED, again=own, quiet=quiet, **options)
        whole = _added(whole, synced)
        if not _is_current(synced):
            return whole
        *_, (last, agent, why) = played_rounds(study)
        if why:
            found = "" if agent.agent_id else f" ({agent.detail})"
            _announce(console, f"round {last.round} is the last: {why}{found}", quiet)
            break
        now = begin_round(study, last.round + 1, last)
    from trace_assets.assets.rounds import rounds_now

    own = [item for item in once_more if item.asset in SEALED]
    if rounds_now(study) != rounds_of(study):
        own.append(Item("rounds"))
    return _added(whole, run_sync(study, again=own, quiet=quiet, **options))


def _is_current(synced: Synced) -> bool:
    """Whether a round's agent is what its settings and code make it."""
    failed = {one.item.asset for one in synced.outcomes if not one.made}
    held = {one.item.asset for one in synced.held_back}
    return not synced.stopped and AGENT not in failed | held


def _added(whole: Synced, more: Synced) -> Synced:
    return Synced(
        [*whole.outcomes, *more.outcomes],
        more.held_back,
        [*whole.at_risk, *(one for one in more.at_risk if one not in whole.at_risk)],
        whole.stopped or more.stopped,
    )


def _announce(console: Console, words: str, quiet: bool) -> None:
    if not quiet:
        console.print(f"[bold]{escape(words)}[/]", soft_wrap=True)
