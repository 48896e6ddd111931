"""`trace sync --dry-run`: what is due and why, what may follow, and what both will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from trace_assets.assets.instance import prepare_instance, register_batches
from trace_assets.assets.staleness import Item, Planner, Step
from trace_assets.definitions import build
from trace_assets.records import LedgerEntry
from trace_assets.report.figures import count, duration, money
from trace_assets.stages.due import marked_items
from trace_assets.store.estimate import Estimate, Range, estimate, history, total
from trace_assets.study import Study


@dataclass(frozen=True)
class Forecast:
    """A plan with what it will take.

    Attributes:
        due: Steps and their estimates, in order.
        may_follow: Items that are up to date and become due only if the content of what they read changes.
    """

    due: Sequence[tuple[Step, Estimate]]
    may_follow: Sequence[tuple[Item, Estimate]]

    def document(self) -> dict[str, Any]:
        """Return it as one JSON document."""
        return {
            "due": [
                {
                    "item": str(step.item),
                    "reason": step.reason,
                    "waits_for": [str(item) for item in step.waits_for],
                    "held_by": [str(item) for item in step.held_by],
                    "estimate": asdict(one),
                }
                for step, one in self.due
            ],
            "may_follow": [{"item": str(item), "estimate": asdict(one)} for item, one in self.may_follow],
            "total_due": asdict(total(one for _, one in self.due)),
            "total_may_follow": asdict(total(one for _, one in self.may_follow)),
            "without_history": self.without_history(),
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
    """
    past = history(study.store.read(LedgerEntry))
    marked = {Item(*name): reason for name, reason in marked_items(study).items()}
    with prepare_instance(study.home) as instance:
        register_batches(instance, study, live=True)
        planner = Planner(build(study), instance, selection)
        steps = planner.look(force=marked)
        later = planner.items_after(steps)
    return Forecast(
        [(step, estimate(past, step.item.asset, step.item.partition)) for step in steps],
        [(item, estimate(past, item.asset, item.partition)) for item in later],
    )


def show(found: Forecast, console: Console) -> None:
    """Print a forecast."""
    if not found.due:
        console.print("Everything is up to date.")
        return
    for step, one in found.due:
        why = step.reason
        if step.held_by:
            why += f"; held back by a failed check of {', '.join(map(str, step.held_by))}"
        console.print(f"{escape(str(step.item))}  [cyan]{_takes(step.item, one)}[/]", soft_wrap=True)
        console.print(f"  [dim]{escape(why)}[/]", soft_wrap=True)
    console.print(f"[bold]{count(len(found.due), 'item')} due[/]: {_sum([one for _, one in found.due])}.")
    if found.may_follow:
        assets = Counter(item.asset for item, _ in found.may_follow)
        names = ", ".join(name if n == 1 else f"{name} ({n})" for name, n in assets.items())
        console.print(
            f"[bold]May follow[/], each only if the content of what it reads changes: {escape(names)}; "
            f"at the most {_sum([one for _, one in found.may_follow])}.",
            soft_wrap=True,
        )
    unknown = found.without_history()
    if unknown:
        named = ", ".join(unknown[:6]) + (f" and {len(unknown) - 6} more" if len(unknown) > 6 else "")
        console.print(f"Not counted, never made before: {escape(named)}.", soft_wrap=True)


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
