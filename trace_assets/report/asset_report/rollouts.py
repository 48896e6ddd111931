"""What a stage shows of its result, the rates that it shows by group, and why runs failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trace_assets.records import (
    ActionDiff,
    BaseCheckpoint,
    FailureCause,
    Task,
    ToolUse,
    TrajectoryHead,
    Triage,
)
from trace_assets.report import formatting
from trace_assets.report.plots import Dot, interval_dots, pictured, svg_markdown
from trace_assets.stats.intervals import Estimate, wilson
from trace_assets.stats.paired import pass_rate

Row = dict[str, int | float | str | bool | None]

MOST_GROUPS = 16
"""Groups a plot: more are not read."""
RESAMPLES = 500
"""Bootstrap draws for figures that nothing is decided on."""


@dataclass(frozen=True)
class AssetReport:
    """Plots and long text as Markdown by title; small tables by title, all rows with the same columns."""

    pages: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """A share of trials with its interval over tasks, and what it rests on."""

    name: str
    estimate: Estimate
    n_tasks: int
    n_trials: int

    @property
    def words(self) -> str:
        """The share in words, such as `47.3 % [43.1, 51.6]`."""
        return formatting.percent(self.estimate.value, self.estimate.low, self.estimate.high)


def shares(trials: Mapping[str, Iterable[tuple[str, bool]]]) -> list[Share]:
    """Return the share of trials that hold, for each group, every task weighing the same.

    Args:
        trials: Group to its trials: task id, and whether it holds.

    >>> [(one.name, one.estimate.value, one.n_tasks) for one in shares({"a": [("x", True), ("y", False)]})]
    [('a', 0.5, 2)]
    """
    found = []
    for name, group in trials.items():
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for task, holds in group:
            counts[task][0] += bool(holds)
            counts[task][1] += 1
        held = np.array([one[0] for one in counts.values()], dtype=np.int64)
        of = np.array([one[1] for one in counts.values()], dtype=np.int64)
        found.append(Share(name, pass_rate(held, of, resamples=RESAMPLES), len(counts), int(of.sum())))
    return found


def share_plot(groups: Sequence[Share], title: str) -> str:
    """Return shares as a Markdown image, n beside each; groups without a figure are left out."""
    shown = [one for one in groups if one.estimate.value is not None][:MOST_GROUPS]
    dots = [
        Dot(
            label=one.name,
            value=one.estimate.value,
            low=one.estimate.value if one.estimate.low is None else one.estimate.low,
            high=one.estimate.value if one.estimate.high is None else one.estimate.high,
            text=f"{one.words}, n = {one.n_trials:,}",
            note=f"{formatting.count(one.n_tasks, 'task')}, {formatting.count(one.n_trials, 'trial')}",
        )
        for one in shown
    ]
    left = len(groups) - len(shown)
    note = f" {left} more groups are in the table." if left else ""
    plot = svg_markdown(interval_dots(dots, title=title), title)
    return f"{plot}\n\n95 % intervals from a bootstrap over tasks; n counts trials.{note}"


# What base model, trajectories and triage show: pass rates by tag, faults, and who is to blame.


BLAME = {
    "agent": "the agent",
    "user_simulator": "the user simulator",
    "ground_truth": "the task's ground truth",
    "environment": "environment or grader",
    "infrastructure": "infrastructure",
    None: "not judged",
}


def base_model_report(base: BaseCheckpoint, low: float, high: float) -> AssetReport:
    """Show the base model's pass rate beside the band it should lie in."""
    dot = Dot(
        label="base model",
        value=base.pass_rate,
        low=base.pass_rate_low,
        high=base.pass_rate_high,
        text=f"{formatting.percent(base.pass_rate, base.pass_rate_low, base.pass_rate_high)}, n = {base.n}",
        tone="strong",
    )
    plot = interval_dots([dot], title="Pass rate of the base model", reference=low)
    words = f"{formatting.count(base.n, 'validation episode')}; wanted {low:.0%} (dashed) to {high:.0%}."
    return AssetReport(pictured("pass rate", plot, f"{words} 95 % interval."))


def trajectories_report(heads: Sequence[TrajectoryHead], tasks: Mapping[str, Task]) -> AssetReport:
    """Show pass rates by task tag (a generator's skill, a domain), how conversations ended, and faults.

    Args:
        heads: Trajectories of one batch.
        tasks: Task id to task, for its tags; a trajectory of another task counts under its target.
    """
    trials: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for one in heads:
        if one.success is not None:
            tags = tasks[one.task_id].tags if one.task_id in tasks else ()
            for tag in tags or (one.target,):
                trials[tag].append((one.task_id, one.success))
    groups = sorted(shares(trials), key=lambda share: share.estimate.value or 0.0)
    ends = Counter((one.stop, one.fault or "none") for one in heads)
    return AssetReport(
        pages={"pass rate by tag": share_plot(groups, "pass rate by tag")} if groups else {},
        tables={
            "pass rates": _share_rows(groups),
            "how it ended": [
                {"stop": stop, "fault": fault, "trajectories": n} for (stop, fault), n in ends.most_common()
            ],
        },
    )


def triage_report(
    rows: Sequence[Triage], diffs: Sequence[ActionDiff] = (), used: Sequence[ToolUse] = ()
) -> AssetReport:
    """Show to whom failures are put down and by which rules, what was expected, and which tools refused."""
    failed = [row for row in rows if row.outcome != "passed"]
    if not failed:
        return AssetReport()
    trials = {
        words: [(row.task_id, row.fault == fault) for row in failed]
        for fault, words in BLAME.items()
        if any(row.fault == fault for row in failed)
    }
    rules = Counter((BLAME[row.fault], row.rule) for row in failed)
    blamed = shares(trials)
    return AssetReport(
        pages={"who is to blame": share_plot(blamed, "share of failures by who is to blame")},
        tables={
            "rules": [
                {"to blame": who, "rule": rule, "failures": n} for (who, rule), n in rules.most_common()
            ],
            "not the agent's": [
                {
                    "trajectory": row.trajectory_id,
                    "rule": row.rule,
                    "messages": ", ".join(str(index) for index in row.evidence),
                    "what shows it": row.detail,
                }
                for row in [row for row in failed if row.fault != "agent"][:50]
            ],
            "expected against done": expected_rows(diffs),
            "errors by tool": error_rows(used),
        },
    )


def expected_rows(diffs: Sequence[ActionDiff], most: int = 30) -> list[Row]:
    """Return by policy and tool in how many failed runs a write was missed, too much or altered.

    Args:
        diffs: Of failed runs.
        most: Rows at most, those of most runs first.
    """
    runs: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    changed: dict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
    for row in diffs:
        key = (row.target, row.policy, row.kind, row.tool)
        runs[key].add(row.trajectory_id)
        changed[key].update(row.changed)
    order = sorted(runs, key=lambda key: (-len(runs[key]), key))
    return [
        {
            "target": target,
            "policy": policy,
            "what": kind,
            "tool": tool,
            "failed runs": len(runs[target, policy, kind, tool]),
            "arguments": ", ".join(
                f"{name} ({n})" for name, n in changed[target, policy, kind, tool].most_common(4)
            ),
        }
        for target, policy, kind, tool in order[:most]
    ]


def error_rows(used: Sequence[ToolUse], most: int = 30) -> list[Row]:
    """Return by policy and tool how often calls were refused, with Wilson's interval, the worst first.

    Args:
        used: Of any batches; counts of one tool are added up.
        most: Rows at most.
    """
    sums: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for row in used:
        counts = {name: getattr(row, name) for name in ("n_calls", "n_errors", "n_runs", "n_unrecovered")}
        sums[row.target, row.policy, row.tool].update(counts)
    refusing = [(key, count) for key, count in sums.items() if count["n_errors"]]
    refusing.sort(key=lambda one: (-one[1]["n_unrecovered"], -one[1]["n_errors"], one[0]))
    return [
        {
            "target": target,
            "policy": policy,
            "tool": tool,
            "refused": formatting.percent(
                count["n_errors"] / count["n_calls"], *wilson(count["n_errors"], count["n_calls"])
            ),
            "calls": count["n_calls"],
            "never recovered": f"{count['n_unrecovered']} of {count['n_runs']} runs",
        }
        for (target, policy, tool), count in refusing[:most]
    ]


def _share_rows(groups: Sequence[Share]) -> list[Row]:
    return [
        {"tag": one.name, "pass rate": one.words, "tasks": one.n_tasks, "trials": one.n_trials}
        for one in groups
    ]


MOST_CAUSES = 50
"""Failures that a page of an asset shows one by one."""
SURE = {"high": 0, "medium": 1, "low": 2}


def causes_report(causes: Sequence[FailureCause], names: Mapping[str, str]) -> AssetReport:
    """Show how many failures each party and each lack caused, and the surest of them one by one."""
    if not causes:
        return AssetReport()
    counts = Counter((row.target, row.party, row.capability or "") for row in causes)
    counted: list[Row] = [
        {"target": target, "party": party, "capability": names.get(lack, lack), "failures": n}
        for (target, party, lack), n in sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item))
    ]
    return AssetReport(tables={"why runs failed": counted, "failed runs": cause_rows(causes, MOST_CAUSES)})


def cause_rows(causes: Sequence[FailureCause], most: int) -> list[Row]:
    """Return failures one by one, by target and then the surest first."""
    ordered = sorted(causes, key=lambda row: (row.target, SURE[row.confidence], row.trajectory_id))
    return [
        {
            "target": row.target,
            "run": row.trajectory_id,
            "party": row.party,
            "message": row.decisive_message,
            "cause": row.words,
            "confidence": row.confidence,
            "repaired": "" if row.repaired is None else "yes" if row.repaired else "no",
        }
        for row in ordered[:most]
    ]
