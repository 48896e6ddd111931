"""The report's tables for a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.diagnosis.repair.shares import NOBODY, OF_OTHERS, decisive_words, placebo_words
from trace_assets.records import Contrast, DecisiveShare, EnvironmentCheck, SelectedCapability
from trace_assets.report import formatting
from trace_assets.report.asset_report.composition import choice_table as choice_rows
from trace_assets.report.asset_report.composition import effects_table as effect_rows
from trace_assets.report.asset_report.training import RATES, arm_row
from trace_assets.report.data import ReportData, stage_costs
from trace_assets.report.headline import (
    WHAT_HELPS,
    fallen,
    fault_shares,
    headline,
    nothing_found,
    overridden,
    played,
    put_aside,
    who_played,
)

MOST_GROUNDS = 2
"""Grounds of a decision that the table tells: with all of them one candidate would fill the screen."""
MOST_CANDIDATES = 10
"""Candidates that the table shows, unless more are kept: a screen or two."""
NARROWEST_TABLE = 76
"""Characters a screen must have for the table: with fewer its last column is cut."""
MOST_FALLEN = 12
"""Proposals that became nothing which are told."""


def print_diagnosis(data: ReportData, console: Console) -> None:
    """Print whose failures these are, and every candidate with its figures and the decision."""
    for target, (judged, shares) in fault_shares(data.triage).items():
        parts = ", ".join(f"{n} {name}" for name, n in shares.items())
        console.print(
            f"[bold]{escape(target)}[/]: {judged} trajectories: {parts}.{put_aside(data, target)}",
            soft_wrap=True,
        )
    if by_hand := overridden(data):
        console.print(escape(by_hand), soft_wrap=True)
    if data.nothing_found and data.triage:
        console.print(f"{escape(nothing_found(data))} {escape(WHAT_HELPS)}", soft_wrap=True)
        for why in fallen(data)[:MOST_FALLEN]:
            console.print(f"  {escape(why)}", soft_wrap=True)
        return
    if not data.contrasts:
        console.print("Contrast: not run yet: run `trace sync`." if data.triage else "No trajectories yet.")
        return
    for target, policies in played(data).items():
        console.print(f"[bold]{escape(target)}[/]: {escape(who_played(policies))}", soft_wrap=True)
    if console.width < NARROWEST_TABLE:
        _print_candidates(data, console)
    else:
        console.print(capability_table(data, wide=console.width >= 110))
    hidden = len(data.contrasts) - len(_shown(data))
    if hidden:
        more = formatting.count(hidden, "more candidate")
        console.print(f"{more}, none of them kept: trace sql gap_table", soft_wrap=True)
    for line in unmeasured(data):
        console.print(f"[dim]{escape(line)}[/]", soft_wrap=True)


def print_found(data: ReportData, console: Console) -> None:
    """Print what is kept, in one sentence and by name: the table before it may fill several screens."""
    if not data.selected:
        return
    console.print(f"[bold]{escape(headline(data))}[/]", soft_wrap=True)
    for row in data.kept:
        name = data.names.get(row.capability_id, row.capability_id)
        console.print(f"  [bold]{row.rank}[/] {escape(name)} [dim]({escape(row.target)})[/]", soft_wrap=True)


def print_loop(data: ReportData, console: Console) -> None:
    """Print environments, adapters, arms and cost, and the result in one sentence."""
    for rows, table in (
        (data.environments, environment_table),
        (data.adapters, adapter_table),
        (data.rounds, rounds_table),
        (data.summary, evaluation_table),
        (effect_rows(data.set_effects, data.names), effects_table),
        (data.choices, choice_table),
        (data.ledger, cost_table),
    ):
        if rows:
            console.print(table(data))
    console.print(f"[bold]{escape(headline(data))}[/]", soft_wrap=True)


def _print_candidates(data: ReportData, console: Console) -> None:
    """Print the candidates of the table below each other, for a screen that cannot hold its columns."""
    decisions = {(row.target, row.capability_id): row for row in data.selected}
    shares = {(row.target, row.capability_id): row for row in data.decisive}
    for row in _shown(data):
        key = (row.target, row.capability_id)
        name = data.names.get(row.capability_id, row.capability_id)
        figures = (
            f"gap {formatting.share(row.gap, row.gap_low, row.gap_high)} "
            f"(n = {row.n_failed_relevant + row.n_passed_relevant}), "
            f"coverage {formatting.share(row.coverage, row.coverage_low, row.coverage_high)} "
            f"(n = {row.n_failed}), q {formatting.p_value(row.q_value)}"
        )
        console.print(f"\n[bold]{escape(name)}[/] [dim]{escape(row.target)}[/]\n{escape(figures)}")
        console.print(_decision(decisions.get(key)) + _told(shares.get(key)))
    console.print()


def capability_table(data: ReportData, *, wide: bool = True) -> Table:
    """Return kept, promising and undecided candidates, and others up to `MOST_CANDIDATES`.

    A narrow table leaves out the two error rates and p, and none has a column of decisive shares where no
    candidate has one; `unmeasured` says why. The report and `trace sql` have everything.
    """
    table = _table("What the agent lacks", "95 % intervals from a bootstrap over tasks")
    several = len({row.target for row in data.contrasts}) > 1
    table.add_column("capability", ratio=2, min_width=14)
    with_shares = wide and any(row.share is not None for row in data.decisive)
    figures = ["ER-", "ER+", "gap", "coverage", "decisive", "p / q"] if wide else ["gap", "coverage", "q"]
    if wide and not with_shares:
        figures.remove("decisive")
    for name in figures:
        table.add_column(name, no_wrap=True)
    table.add_column("decision", ratio=3, min_width=14)
    decisions = {(row.target, row.capability_id): row for row in data.selected}
    shares = {(row.target, row.capability_id): row for row in data.decisive}
    for row in _shown(data):
        decision = decisions.get((row.target, row.capability_id))
        name = escape(data.names.get(row.capability_id, row.capability_id))
        q = formatting.p_value(row.q_value)
        p = formatting.p_value(None if row.q_value is None else row.p_value)  # without a q it was not tested
        rates = (
            _stacked(row.er_failed, row.er_failed_low, row.er_failed_high, row.n_failed_relevant),
            _stacked(row.er_passed, row.er_passed_low, row.er_passed_high, row.n_passed_relevant)
            + (f"\n[dim]{row.n_passed_aside} lucky aside[/]" if row.n_passed_aside else ""),
        )
        table.add_row(
            f"[bold]{name}[/]" + (f"\n[dim]{escape(row.target)}[/]" if several else ""),
            *(rates if wide else ()),
            _stacked(row.gap, row.gap_low, row.gap_high, row.n_failed_relevant + row.n_passed_relevant),
            _stacked(row.coverage, row.coverage_low, row.coverage_high, row.n_failed),
            *((_decisive(shares.get((row.target, row.capability_id))),) if with_shares else ()),
            f"{p}\n{q}" if wide else q,
            _decision(decision) + ("" if wide else _told(shares.get((row.target, row.capability_id)))),
        )
    return table


def _shown(data: ReportData) -> list[Contrast]:
    """Return the candidates of the table, in its order."""
    decisions = {(row.target, row.capability_id): row for row in data.selected}

    def rank(row: Contrast) -> tuple[bool, bool, bool, str, int, str]:
        decision = decisions.get((row.target, row.capability_id))
        kept = decision is not None and decision.kept
        said = decision.verdict if decision is not None else None
        place = decision.rank if decision else 10_000
        return not kept, said != "promising", said != "undecided", row.target, place, row.capability_id

    return sorted(data.contrasts, key=rank)[: max(MOST_CANDIDATES, sum(row.kept for row in data.selected))]


def _decisive(share: DecisiveShare | None) -> str:
    """Write how often repairing it lets failed runs pass, and how often its placebo does."""
    if share is None or share.share is None:
        return "[dim]not\nmeasured[/]"
    least = "at least " if share.lower_bound else ""
    words = least + _stacked(share.share, share.share_low, share.share_high, share.n_replayed)
    if share.placebo is None:
        return f"{words}\n[dim]no placebo[/]"
    value = formatting.share(share.placebo, share.placebo_low, share.placebo_high)
    return words + escape(f"\nplacebo {value}".replace(" [", "\n[")) + f"\n[dim]n = {share.n_placebo}[/]"


def _told(share: DecisiveShare | None) -> str:
    if share is None or share.share is None:
        return ""
    return escape(f"\ndecisive {decisive_words(share)}, placebo {placebo_words(share)}")


def unmeasured(data: ReportData) -> list[str]:
    """Say why candidates have no decisive share, each once; nothing where no run can be replayed."""
    reasons = Counter(row.not_measured for row in data.decisive if row.not_measured)
    if reasons.keys() <= {OF_OTHERS, NOBODY} and not any(row.share is not None for row in data.decisive):
        return []
    return [
        f"Decisive share of {formatting.count(n, 'candidate')}: {reason}."
        for reason, n in sorted(reasons.items())
    ]


def _stacked(value: float | None, low: float | None, high: float | None, n: int) -> str:
    return escape(formatting.share(value, low, high).replace(" [", "\n[")) + f"\n[dim]n = {n}[/]"


def _decision(decision: SelectedCapability | None) -> str:
    if decision is None:
        return "not decided yet"
    said = formatting.decision(decision.verdict, decision.kept)
    found = decision.kept and not decision.overridden_by
    word = f"[bold green]{said}, {decision.rank}[/]" if found else f"[yellow]{said}[/]"
    return f"{word}\n{escape(_first(decision.reason.removeprefix(f'{decision.verdict}: ')))}"


def _first(reason: str) -> str:
    """Return the first grounds of a decision, and how many more there are.

    >>> _first("a; b; c; d")
    'a; b; and 2 more'
    >>> _first("a; b; c")
    'a; b; c'
    """
    grounds = reason.split("; ")
    more = len(grounds) - MOST_GROUNDS
    return reason if more < 2 else "; ".join([*grounds[:MOST_GROUNDS], f"and {more} more"])


def environment_table(data: ReportData) -> Table:
    """Return the environments with the outcome of their audit."""
    rows = []
    for environment in data.environments:
        own = [row for row in data.checks if row.environment_id == environment.environment_id]
        band = next((row for row in own if row.check_id.endswith("pass_band")), None)
        passes = f"{formatting.percent(band.value)} (n = {band.n})" if band else ""
        failed = [f"{row.check_id}: {row.evidence}" for row in own if row.status == "fail"]
        rows.append(
            {
                "capability": data.names.get(environment.capability_id, environment.capability_id),
                "written by": environment.writer,
                "audit": audit_outcome(own),
                "base pass rate": passes if band and band.value is not None else formatting.NONE,
                "failed checks": "; ".join(failed) or "none",
            }
        )
    return _filled("Environments", "generated code, run only in the sandbox", rows)


def audit_outcome(checks: Sequence[EnvironmentCheck]) -> str:
    """Return an audit's verdict in words.

    >>> audit_outcome([])
    'not audited'
    """
    if not checks:
        return "not audited"
    n = {status: sum(row.status == status for row in checks) for status in ("pass", "fail", "skip")}
    rejected = any(row.status == "fail" and row.severity == "error" for row in checks)
    text = f"{'rejected' if rejected else 'accepted'}: {n['pass']} passed"
    return text + "".join(
        f", {n[status]} {word}" for status, word in (("fail", "failed"), ("skip", "skipped")) if n[status]
    )


def adapter_table(data: ReportData) -> Table:
    """Return the adapters with their rates on held-out seeds of their own environment."""
    percent = formatting.percent
    rows = [
        {
            "adapter": data.names.get(row.name, row.name),
            "before": percent(row.validation_before, row.validation_before_low, row.validation_before_high),
            "after": percent(row.validation_after, row.validation_after_low, row.validation_after_high),
            "episodes": row.validation_n,
            "rollouts": f"{row.rollouts:,}",
            "time": formatting.duration(row.seconds),
        }
        for row in data.adapters
    ]
    return _filled("Adapters", "pass rates on seeds that were not trained on", rows)


def evaluation_table(data: ReportData) -> Table:
    """Return the arms on the test tasks."""
    rows = []
    for row in data.overall.values():
        trials = f"{row.n_tasks} x {row.n_trials / max(1, row.n_tasks):.3g}"
        shown = {**arm_row(row, data.names), "tasks x trials": trials}
        rows.append({name: shown[name] for name in (*RATES, "tasks x trials", "faults")})
    caption = "differences are paired by task; 95 % intervals"
    bold = formatting.arm_name("routed")
    return _filled("On tasks never seen before", caption, rows, bold=bold)


def effects_table(data: ReportData) -> Table:
    """Return what each adapter adds to a sum, on the validation tasks that are sent there."""
    level = f"{100 * data.set_effects[0].confidence:.2f}"
    caption = f"validation tasks that are sent to the sum; {level} % intervals"
    return _filled("Adapters added up", caption, effect_rows(data.set_effects, data.names))


def choice_table(data: ReportData) -> Table:
    """Return what validation chose to release, beside the other ways."""
    caption = "differences are paired by task; 95 % intervals"
    return _filled("What is released, by validation tasks", caption, choice_rows(data.choices))


def rounds_table(data: ReportData) -> Table:
    """Return what each round began with, found and gained."""
    table = _table("Rounds", "the agent of a round is the base model of the next; 95 % intervals")
    for name in ("round", "base passes", "gain on validation", "rollouts"):
        table.add_column(name, no_wrap=True)
    table.add_column("found", ratio=3, min_width=14)
    table.add_column("outcome", ratio=3, min_width=14)
    for row in data.rounds:
        warm = f"\n[dim]begun with demonstrations: {escape('; '.join(row.warm_started))}[/]"
        table.add_row(
            str(row.round),
            _stacked(row.pass_rate, row.pass_rate_low, row.pass_rate_high, row.n),
            escape(formatting.points(row.delta, row.delta_low, row.delta_high).replace(" [", "\n["))
            + f"\n[dim]n = {row.n_tasks}[/]",
            f"{row.training_rollouts:,}",
            escape("; ".join(row.found) or "nothing") + (warm if row.warm_started else ""),
            f"[bold]{'taken' if row.taken else 'not taken'}[/]\n[dim]{escape(row.detail)}[/]",
        )
    return table


def cost_table(data: ReportData) -> Table:
    """Return wall and CPU time, episodes and money of each stage."""
    table = _table("Cost", "time of the latest run of each asset, money of all runs")
    for name in ("stage", "wall", "CPU", "episodes", "cost"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    totals: dict[str, float] = defaultdict(float)
    for stage, spent in stage_costs(data.ledger).items():
        for kind, quantity in spent.items():
            totals[kind] += quantity
        table.add_row(escape(stage), *_spent(spent))
    table.add_section()
    table.add_row("all", *_spent(totals), style="bold")
    return table


def _spent(spent: dict[str, float]) -> tuple[str, str, str, str]:
    episodes = spent.get("rollouts", 0.0)
    return (
        formatting.duration(spent.get("wall", 0.0)),
        formatting.duration(spent.get("cpu", 0.0)),
        f"{episodes:,.0f}" if episodes else formatting.NONE,
        formatting.money(spent.get("usd", 0.0)),
    )


def _filled(title: str, caption: str, rows: Sequence[Mapping[str, object]], bold: str = "") -> Table:
    """Return rows as a table, their keys as its columns; that of the first column's value `bold` in bold."""
    table = _table(title, caption)
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        cells = [str(value) for value in row.values()]
        table.add_row(*map(escape, cells), style="bold" if bold and cells[0] == bold else "")
    return table


def _table(title: str, caption: str) -> Table:
    return Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        header_style="dim",
        pad_edge=False,
    )
