"""What base model, trajectories and triage show: pass rates by tag, faults, and who is to blame."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from trace_assets.records import ActionDiff, BaseCheckpoint, Task, ToolUse, TrajectoryHead, Triage
from trace_assets.report import figures
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.exhibits.exhibit import Exhibit, Row, Share, share_plot, shares
from trace_assets.report.plots import Dot, interval_dots
from trace_assets.statistics.wilson import wilson

BLAME = {
    "agent": "the agent",
    "user_simulator": "the user simulator",
    "ground_truth": "the task's ground truth",
    "environment": "environment or grader",
    "infrastructure": "infrastructure",
    None: "not judged",
}


def base_model_exhibit(base: BaseCheckpoint, low: float, high: float) -> Exhibit:
    """Show the base model's pass rate beside the band it should lie in."""
    if base.pass_rate is None or base.pass_rate_low is None or base.pass_rate_high is None:
        return Exhibit()
    dot = Dot(
        label="base model",
        value=base.pass_rate,
        low=base.pass_rate_low,
        high=base.pass_rate_high,
        text=f"{figures.percent(base.pass_rate, base.pass_rate_low, base.pass_rate_high)}, n = {base.n}",
        tone="strong",
    )
    plot = svg_markdown(interval_dots([dot], title="Pass rate of the base model", reference=low), "pass rate")
    words = f"{figures.count(base.n, 'validation episode')}; wanted {low:.0%} (dashed) to {high:.0%}."
    return Exhibit(pages={"pass rate": f"{plot}\n\n{words} 95 % interval."})


def trajectories_exhibit(heads: Sequence[TrajectoryHead], tasks: Mapping[str, Task]) -> Exhibit:
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
    return Exhibit(
        pages={"pass rate by tag": share_plot(groups, "pass rate by tag")} if groups else {},
        tables={
            "pass rates": _share_rows(groups, "tag"),
            "how it ended": [
                {"stop": stop, "fault": fault, "trajectories": n} for (stop, fault), n in ends.most_common()
            ],
        },
    )


def triage_exhibit(
    rows: Sequence[Triage], diffs: Sequence[ActionDiff] = (), used: Sequence[ToolUse] = ()
) -> Exhibit:
    """Show to whom failures are put down and by which rules, what was expected, and which tools refused."""
    failed = [row for row in rows if row.outcome != "passed"]
    if not failed:
        return Exhibit()
    trials = {
        words: [(row.task_id, row.fault == fault) for row in failed]
        for fault, words in BLAME.items()
        if any(row.fault == fault for row in failed)
    }
    rules = Counter((BLAME[row.fault], row.rule) for row in failed)
    blamed = shares(trials)
    return Exhibit(
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
            "refused": figures.percent(
                count["n_errors"] / count["n_calls"], *wilson(count["n_errors"], count["n_calls"])
            ),
            "calls": count["n_calls"],
            "never recovered": f"{count['n_unrecovered']} of {count['n_runs']} runs",
        }
        for (target, policy, tool), count in refusing[:most]
    ]


def _share_rows(groups: Sequence[Share], column: str) -> list[Row]:
    return [
        {column: one.name, "pass rate": one.words, "tasks": one.n_tasks, "trials": one.n_trials}
        for one in groups
    ]
