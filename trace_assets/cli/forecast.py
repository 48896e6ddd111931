"""`trace sync --dry-run`: what is due and why, what is likely to follow and what may, what it will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.markup import escape

from trace_assets.definitions import graph
from trace_assets.orchestration.cheaper_dagster import kept_connections
from trace_assets.orchestration.forecast import LOOP, TAUGHT, Scope, likely_to_follow
from trace_assets.orchestration.instance import PLAYED, prepare_instance, register_batches
from trace_assets.orchestration.planner import Item, Planner, Step
from trace_assets.records import LedgerEntry
from trace_assets.report.formatting import count, duration, money
from trace_assets.resources.inbox import batches
from trace_assets.store.history import Estimate, Range, estimate, history, total
from trace_assets.study import Study
from trace_assets.targets.registry import check_named
from trace_assets.training.base_folder import check_folder
from trace_assets.workflows.finished_work import finished_work, would_replace
from trace_assets.workflows.made_with import marked_items

SANDBOXED = frozenset({"environment_audit", "pilot", "adapter"})
"""Assets that run generated code."""


@dataclass(frozen=True)
class Forecast:
    """A plan with what it will take.

    Attributes:
        due: Steps and their estimates, in order.
        likely: Items that are up to date, and due once the light ones among the steps were made.
        may_follow: Items that are up to date and become due only if the content of what they read changes;
            the likely ones are among them.
        at_risk: Item to what it holds finished that would be replaced, and why; not without being asked to.
        notes: What is left out, in sentences.
    """

    due: Sequence[tuple[Step, Estimate]]
    likely: Sequence[tuple[Item, Estimate]]
    may_follow: Sequence[tuple[Item, Estimate]]
    at_risk: Mapping[Item, tuple[str, str]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Return it as one JSON document."""
        return {
            "due": [
                {
                    "item": str(step.item),
                    "reason": step.reason,
                    "waits_for": [str(item) for item in step.waits_for],
                    "held_by": [str(item) for item in step.held_by],
                    "replaces": self.at_risk[step.item][0] if step.item in self.at_risk else None,
                    "estimate": asdict(one),
                }
                for step, one in self.due
            ],
            "likely_to_follow": [{"item": str(item), "estimate": asdict(one)} for item, one in self.likely],
            "may_follow": [{"item": str(item), "estimate": asdict(one)} for item, one in self.may_follow],
            "total_due": asdict(total(one for _, one in self.due)),
            "total_likely": asdict(total(one for _, one in [*self.due, *self.likely])),
            "total_at_most": asdict(total(one for _, one in [*self.due, *self.may_follow])),
            "total_may_follow": asdict(total(one for _, one in self.may_follow)),
            "without_history": self.without_history(),
            "left_out": list(self.notes),
        }

    def without_history(self) -> list[str]:
        """Return the items that nothing is known of; settings take no time and are none of them."""
        everything = [(step.item, one) for step, one in self.due] + list(self.may_follow)
        return [str(item) for item, one in everything if one.n == 0 and not item.asset.startswith("config/")]


def forecast(study: Study, selection: Iterable[str] | None = None) -> Forecast:
    """Return what a sync would begin with, and what it would take, without doing it.

    Args:
        study: The study.
        selection: Assets or items to look at; None takes all.

    Raises:
        InputError: It would play a target, or begin with a base model, that there is none of.
    """
    past, brought_in = history(study.store.read(LedgerEntry)), set(batches(study))

    def takes(item: Item) -> Estimate:
        one = estimate(past, item.asset, item.partition)
        # The ledger holds what the trajectories of a file cost whoever made them: reading them is free.
        return (
            replace(one, usd=Range())
            if item.asset == "trajectories" and item.partition in brought_in
            else one
        )

    selected = None if selection is None else list(selection)
    marked = {Item(*name): reason for name, reason in marked_items(study).items()}
    scope = Scope(study, selected)
    if scope.live:
        check_named(study.settings.targets)
    with prepare_instance(study.home, to_look=True) as instance, kept_connections():
        register_batches(instance, study, live=scope.live)
        planner = Planner(graph(study), instance, selected, standing=scope)
        steps = planner.look(force=marked)
        later = planner.items_after(steps)
        if any(step.item.asset == "base_model" for step in steps):
            check_folder(study.settings.base_model.path, study.home.path)
        likely = likely_to_follow(planner, study, steps) if steps else []
    at_risk = {
        step.item: (finished_work(study, step.item.asset, step.item.partition), why)
        for step in steps
        if (why := would_replace(study, step.item.asset, step.item.partition, step.causes))
    }
    return Forecast(
        [(step, takes(step.item)) for step in steps],
        [(item, takes(item)) for item in likely],
        [(item, takes(item)) for item in [*later, *(item for item in likely if item not in later)]],
        at_risk,
        scope.notes() if selected is None else (),
    )


def plays_live(study: Study, found: Forecast) -> bool:
    """Tell whether the live target is opened for something that is due."""
    settings = {name for name in LOOP | TAUGHT if name.startswith("config/")}
    for step, _ in found.due:
        item = step.item
        live = item.partition == study.live_batch if item.asset in PLAYED else item.asset in LOOP | TAUGHT
        if live and item.asset not in settings:
            return True
    return False


def needs_sandbox(study: Study) -> bool:
    """Whether a sync of everything would run generated code, as far as that can be told beforehand."""
    with prepare_instance(study.home, to_look=True) as instance, kept_connections():
        register_batches(instance, study, live=True)
        planner = Planner(graph(study), instance, standing=Scope(study, everything=True))
        due = {step.item.asset for step in planner.look()}
        is_first = planner.made(Item("selected_capabilities")) is None
    return bool(due & SANDBOXED) or is_first


def show(found: Forecast, console: Console) -> None:
    """Print a forecast."""
    for words in found.notes:
        console.print(f"[dim]{escape(words)}[/]", soft_wrap=True)
    if not found.due:
        console.print("Everything is up to date.")
        return
    for step, one in found.due:
        why = step.reason
        if step.held_by:
            why += f"; held back by a failed check of {', '.join(map(str, step.held_by))}"
        console.print(f"{escape(str(step.item))}  [cyan]{_takes(step.item, one)}[/]", soft_wrap=True)
        console.print(f"  [dim]{escape(why)}[/]", soft_wrap=True)
        if step.item in found.at_risk:
            work, difference = found.at_risk[step.item]
            console.print(
                f"  [yellow]would replace {escape(work)}[/] ({escape(difference)}): not unless you say so",
                soft_wrap=True,
            )
    console.print(f"[bold]{count(len(found.due), 'item')} due[/]: {_sum([one for _, one in found.due])}.")
    if found.may_follow:
        _show_later(found, console)
    unknown = found.without_history()
    if unknown:
        named = ", ".join(unknown[:6]) + (f" and {len(unknown) - 6} more" if len(unknown) > 6 else "")
        console.print(f"Not counted, never made before: {escape(named)}.", soft_wrap=True)


def _show_later(found: Forecast, console: Console) -> None:
    """Print what is likely to follow, and the most that may."""
    due = [one for _, one in found.due]
    if found.likely:
        console.print(
            f"[bold]Likely[/] to follow, by the content of what is due: {escape(_names(found.likely))}; with "
            f"them in all {_sum([*due, *(one for _, one in found.likely)])}.",
            soft_wrap=True,
        )
    else:
        console.print("[bold]Likely[/] that nothing follows.")
    more = [(item, one) for item, one in found.may_follow if item not in {item for item, _ in found.likely}]
    if more:
        console.print(
            "[bold]At the most[/], if the content of all that they read changes, also "
            f"{escape(_names(more))}; then in all {_sum([*due, *(one for _, one in found.may_follow)])}.",
            soft_wrap=True,
        )


def _names(items: Sequence[tuple[Item, Estimate]]) -> str:
    assets = Counter(item.asset for item, _ in items)
    return ", ".join(name if n == 1 else f"{name} ({n})" for name, n in assets.items())


def _takes(item: Item, one: Estimate) -> str:
    if one.n == 0:
        return "" if item.asset.startswith("config/") else "never made before"
    words = [_time(one.seconds)]
    if one.episodes.high:
        words.append(count(round(one.episodes.middle), "rollout"))
    if one.usd.high:
        words.append(money(one.usd.middle))
    where = " of other partitions" if one.basis == "others" else ""
    return f"{', '.join(words)} (n = {one.n}{where})"


def _time(seconds: Range) -> str:
    return duration(seconds.middle) + (
        f" [{duration(seconds.low)}, {duration(seconds.high)}]" if seconds.high > seconds.low else ""
    )


def _sum(parts: Sequence[Estimate]) -> str:
    whole = total(parts)
    if not whole.n:
        return "no past run to estimate from"
    episodes, usd = whole.episodes, whole.usd
    between = f" [{episodes.low:,.0f}, {episodes.high:,.0f}]" if episodes.high > episodes.low else ""
    spent = f" [{money(usd.low)}, {money(usd.high)}]" if usd.high > usd.low else ""
    return (
        f"{_time(whole.seconds)} one after the other, {count(round(episodes.middle), 'rollout')}{between}, "
        f"{money(usd.middle)}{spent} (n = {whole.n}{_made_once(parts)})"
    )


def _made_once(parts: Sequence[Estimate]) -> str:
    """Say of how many items the spread is not known."""
    once = sum(one.n == 1 for one in parts)
    return f"; {count(once, 'item')} made once before, so of unknown spread" if once else ""
