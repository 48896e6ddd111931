"""The page `docs/studies.md`: figures of simulated studies, as one command makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.simulations.power import PICKED, POOL, Picked, Reached
from tests.simulations.repeat import FIGURES, Outcome, Share, Timing
from trace_assets.report.plots import WIDTH, Dot, alone, circle, interval_dots, line, path, picture, text
from trace_assets.stats.intervals import wilson

WORDS = {
    "er_failed": "ER-",
    "er_passed": "ER+",
    "gap": "gap",
    "coverage": "coverage",
    "matched_gap": "gap in runs of the same task",
}


@dataclass(frozen=True)
class Results:
    """All that the page shows, and the command that made it."""

    command: str
    outcomes: Sequence[Outcome]
    picked: Picked
    reached: Sequence[Reached]
    timings: Sequence[Timing]


def pooled(outcome: Outcome, figure: str, *, flawless: bool = False) -> Share:
    """Return how often intervals of a figure held the truth, over all capabilities of a world."""
    table = outcome.covered_flawless if flawless else outcome.covered
    shares = [share for (_, name), share in table.items() if name == figure]
    return Share(sum(share.hits for share in shares), sum(share.n for share in shares))


def extremes(outcome: Outcome, figure: str) -> tuple[tuple[str, Share], tuple[str, Share]] | None:
    """Return the capabilities whose intervals covered least and most often; None without any interval."""
    shares = [
        (capability, share)
        for (capability, name), share in outcome.covered.items()
        if name == figure and share.n >= outcome.studies // 2
    ]
    if not shares:
        return None
    return min(shares, key=lambda one: one[1].value or 0), max(shares, key=lambda one: one[1].value or 0)


def write_page(results: Results, folder: Path) -> Path:
    """Write `studies.md` and its two pictures into a folder, and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "studies-coverage.svg").write_text(alone(_coverage_plot(results.outcomes)), encoding="utf-8")
    (folder / "studies-power.svg").write_text(alone(_power_plot(results.reached)), encoding="utf-8")
    page = folder / "studies.md"
    page.write_text(page_text(results), encoding="utf-8")
    return page


def page_text(results: Results) -> str:
    """Return the page as Markdown."""
    outcomes = results.outcomes
    n = outcomes[0].studies
    low, high = wilson(round(0.95 * n), n)
    parts = [
        "# Simulated studies",
        f"Made by `{results.command}`; the same seed gives the same figures (times aside).",
        "Each study is drawn from a world in which it is known what the agent lacks, and goes through the "
        "same contrast and selection, with their default settings, as a real one (`selection.max_chance` "
        "aside: `python -m tests.simulations.chance` sets power with it beside power without). Each "
        "world has nine "
        "capabilities: three real deficits (`deep`, `rare`, `mild`), a second name for one of them "
        "(`other_name`, 92 % the same labels), four that mean nothing (`idle*`, one of them needed more "
        "often in hard tasks), and one that is lacking more often in hard tasks but costs nothing "
        "(`hard_not_lacking`). Tasks differ in difficulty and in how prone they are to each lack.",
        "## Do 95 % intervals hold the truth in 95 % of studies?",
        f"Share of intervals that hold the true figure, over all capabilities; {n:,} studies a world. For "
        f"one capability, {n:,} studies of a true 95 % show {100 * low:.1f} to {100 * high:.1f} % in 19 of "
        "20 cases, so single ones may lie outside of 93 to 97 % by chance: the least and the greatest are "
        "named.",
        "![Coverage of the intervals](studies-coverage.svg)",
        _coverage_table(outcomes),
        _outside(outcomes),
        "Where passes err, the truth above is the figure as so labelled on tasks without end. Against labels "
        "without errors, intervals of noisy passes hold (labels that the passes cannot settle are left out, "
        "which keeps the bias small):",
        _flawless_table(outcomes),
        "## How often is something found where nothing is?",
        _false_table(outcomes),
        "*Significant*: mean share of capabilities without a gap among those with q at most 0.05 (the false "
        "discovery rate). *Kept*: mean share of capabilities that cost nothing among those selected. "
        "*Twice*: one deficit bought under both its names.",
        f"Candidates are picked by a look at outcomes. Where nothing is lacking, of {POOL} proposals the "
        f"{PICKED} with the largest gaps are picked, and something is significant in "
        f"{results.picked.uncorrected} of {results.picked.uncorrected.n} studies when q is corrected for the "
        f"picked alone, in {results.picked.considered} when it is corrected for all that were considered "
        f"(what the contrast does with proposals that were made blind), and in {results.picked.halved} when "
        "they are picked on one half of the tasks and tested on the other (`discovery.split`).",
        "## What is found?",
        _kept_table(outcomes),
        "`deep` and `other_name` are one deficit: add them. `mild` has a gap at the threshold of 0.20, so "
        "no number of tasks finds it in more than half of the studies.",
        "## How many tasks does it take?",
        "Share of studies that select a deficit needed in half of the tasks, four trials each, beside three "
        "idle capabilities; lines are what `trace plan` says, points what studies reached.",
        "![Power by gap and number of tasks](studies-power.svg)",
        _power_table(results.reached),
        "## How long does it take?",
        "Processor seconds for a million labels on one core: counts by task with 1,000 resamples, and the "
        "whole contrast (matched pairs, permutation p, q).",
        _speed_table(results.timings),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _coverage_table(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        for figure in FIGURES:
            ends = extremes(outcome, figure)
            if ends is None:
                continue
            words = [f"{100 * (share.value or 0):.1f} % (`{name}`)" for name, share in ends]
            rows.append([outcome.world.name, WORDS[figure], str(pooled(outcome, figure)), *words])
    return _table(["world", "figure", "all capabilities", "least", "greatest"], rows)


def _outside(outcomes: Sequence[Outcome]) -> str:
    """Return a sentence that names the extremes outside of 93 to 97 %."""
    named = [
        f"{WORDS[figure]} of `{name}` in {outcome.world.name} ({100 * (share.value or 0):.1f} %)"
        for outcome in outcomes
        for figure in FIGURES
        for name, share in extremes(outcome, figure) or ()
        if not 0.93 <= (share.value or 0) <= 0.97
    ]
    return f"Outside of 93 to 97 % among these: {'; '.join(named) or 'none'}."


def _flawless_table(outcomes: Sequence[Outcome]) -> str:
    return _table(
        ["world", *(WORDS[figure] for figure in FIGURES)],
        [
            [outcome.world.name, *(str(pooled(outcome, figure, flawless=True)) for figure in FIGURES)]
            for outcome in outcomes
            if outcome.world.error
        ],
    )


def _false_table(outcomes: Sequence[Outcome]) -> str:
    return _table(
        ["world", "significant", "kept", "twice"],
        [
            [one.world.name, f"{100 * one.false_by_q:.2f} %", f"{100 * one.false_kept:.2f} %", str(one.twice)]
            for one in outcomes
        ],
    )


def _kept_table(outcomes: Sequence[Outcome]) -> str:
    names = [one.name for one in outcomes[0].world.planted]
    return _table(
        ["capability", "gap", "coverage", *(f"kept: {one.world.name}" for one in outcomes)],
        [
            [
                f"`{name}`",
                f"{round(outcomes[0].truth[name, 'gap'], 2) + 0:.2f}",
                f"{outcomes[0].truth[name, 'coverage']:.2f}",
                *(f"{100 * (one.kept[name].value or 0):.1f} %" for one in outcomes),
            ]
            for name in names
        ],
    )


def _power_table(reached: Sequence[Reached]) -> str:
    return _table(
        ["gap", "coverage", "tasks x 4", "planned", "reached"],
        [
            [
                f"{one.gap:.2f}",
                f"{one.coverage:.2f}",
                str(one.tasks),
                f"{100 * one.planned:.0f} %",
                str(one.kept),
            ]
            for one in reached
        ],
    )


def _speed_table(timings: Sequence[Timing]) -> str:
    return _table(
        ["tasks", "trials", "capabilities", "bootstrap", "whole contrast"],
        [
            [
                f"{one.tasks:,}",
                str(one.trials),
                str(one.capabilities),
                f"{one.bootstrap:.2f} s",
                f"{one.whole:.2f} s",
            ]
            for one in timings
        ],
    )


def _coverage_plot(outcomes: Sequence[Outcome]) -> str:
    dots = []
    for outcome in outcomes:
        for figure in ("gap", "coverage"):
            share = pooled(outcome, figure)
            low, high = share.bounds
            dots.append(
                Dot(
                    label=f"{WORDS[figure]}: {outcome.world.name}",
                    value=share.value or 0.0,
                    low=low,
                    high=high,
                    text=f"{100 * (share.value or 0):.1f} %",
                    note=f"n = {share.n:,} intervals",
                    tone="strong" if figure == "gap" else "",
                )
            )
    return interval_dots(dots, title="Coverage of 95 % intervals", reference=0.95, low=0.90, high=1.0)


def _power_plot(reached: Sequence[Reached]) -> str:
    left, top, right, bottom = 44, 14, WIDTH - 60, 260
    sizes = sorted({one.tasks for one in reached})

    def at(tasks: int, share: float) -> tuple[float, float]:
        place = sizes.index(tasks) / max(1, len(sizes) - 1)
        return left + 10 + place * (right - left - 20), bottom - share * (bottom - top)

    parts = []
    for step in range(5):
        y = at(sizes[0], step / 4)[1]
        parts.append(line(left, y, right, y, "grid"))
        parts.append(text(left - 6, y + 4, f"{25 * step} %", "m r"))
    for tasks in sizes:
        parts.append(text(at(tasks, 0)[0], bottom + 17, str(tasks), "m c"))
    parts.append(text((left + right) / 2, bottom + 34, "tasks, four trials each; one line a true gap", "m c"))
    for gap in sorted({one.gap for one in reached}):
        own = [one for one in reached if one.gap == gap]
        places = path([at(one.tasks, one.planned) for one in own])
        parts.append(f'<polyline class="curve" points="{places}"/>')
        parts.append(
            text(
                right + 4,
                at(own[-1].tasks, own[-1].planned)[1] + (12 if 0.3 < gap < 0.4 else 2),
                f"{gap:.2f}",
            )
        )
        for one in own:
            x, y = at(one.tasks, one.kept.value or 0.0)
            low, high = one.kept.bounds
            parts.append(line(x, at(one.tasks, low)[1], x, at(one.tasks, high)[1], "whisker strong"))
            parts.append(circle(x, y, 4, "dot strong", f"gap {gap:.2f}, {one.tasks} tasks: {one.kept}"))
    return picture(parts, bottom + 44, "Power by gap and number of tasks")
