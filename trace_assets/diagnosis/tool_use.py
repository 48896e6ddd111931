"""Which tools agents call, and which refuse them: there to be read also when nothing is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import ToolUse, Trajectory


def tool_use(trajectories: Iterable[Trajectory]) -> list[ToolUse]:
    """Count the agent's calls and their errors, by target, policy, tool and batch."""
    counts: dict[tuple[str, str, str, str], list[int]] = defaultdict(lambda: [0] * 5)
    for one in trajectories:
        for tool, steps in Transcript(one).by_tool.items():
            own = [step for step in steps if not step.by_user]
            if not own:
                continue
            errors = sum(step.failed for step in own)
            unrecovered = own[-1].failed
            row = counts[one.target, one.policy, tool, one.task_batch]
            for place, more in enumerate(
                (1, len(own), errors, unrecovered, unrecovered and one.success is False)
            ):
                row[place] += more
    return [
        ToolUse(
            target=target,
            policy=policy,
            tool=tool,
            task_batch=batch,
            n_runs=runs,
            n_calls=calls,
            n_errors=errors,
            n_unrecovered=open_errors,
            n_unrecovered_failed=failed,
        )
        for (target, policy, tool, batch), (runs, calls, errors, open_errors, failed) in sorted(
            counts.items()
        )
    ]
