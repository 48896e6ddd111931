"""Whether episodes are as long as real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.fidelity.material import (
    MIN_REAL,
    focus_of,
    real_episodes,
    too_few,
    with_reference,
)
from trace_assets.synthesis.contract.protocol import spread_of
from trace_assets.synthesis.contract.reference import Turn, turns_of
from trace_assets.synthesis.contract.target_contract import TargetContract

Measure = Callable[[Sequence[Turn]], float]


def _characters(role: str) -> Measure:
    """Return how long messages of one role are on average."""

    def measure(turns: Sequence[Turn]) -> float:
        own = [turn.characters for turn in turns if turn.role == role and turn.characters]
        return sum(own) / len(own) if own else 0.0

    return measure


def _messages(role: str) -> Measure:
    return lambda turns: float(sum(turn.role == role and turn.characters > 0 for turn in turns))


MEASURES: dict[str, Measure] = {
    "assistant turns": lambda turns: float(sum(turn.role == "assistant" for turn in turns)),
    "tool calls": lambda turns: float(sum(len(turn.tools) for turn in turns if turn.role == "assistant")),
    "user messages": _messages("user"),
    "characters of a user message": _characters("user"),
    "characters of a result": _characters("tool"),
}


@with_reference
def lengths(subject: Subject, contract: TargetContract) -> Finding:
    """Turns, calls, messages and their lengths are such as real successful trajectories have.

    Each median over the oracle's episodes shall lie where 80 % of the real successes with its changes lie.
    """
    focus = focus_of(subject, contract)
    real = [one.turns for one in real_episodes(contract, focus)]
    if len(real) < MIN_REAL:
        return too_few(len(real), focus)
    ours = [turns_of(one.messages) for one in focus.episodes]
    outside = []
    for name, measure in MEASURES.items():
        spread = spread_of([measure(turns) for turns in real])
        middle = median(measure(turns) for turns in ours)
        if not spread.low <= middle <= spread.high:
            outside.append(f"{name}: {middle:.3g}, real ones {spread.low:.3g} to {spread.high:.3g}")
    value, bound = len(outside) / len(MEASURES), f"<= {subject.rules.max_lengths_outside}"
    evidence = "; ".join(outside) or f"all {len(MEASURES)} medians lie among {len(real)} real episodes'"
    passed = value <= subject.rules.max_lengths_outside
    return Finding("pass" if passed else "fail", evidence, value, len(ours), bound)


_ANSWERS = ("trace.fidelity.result_shape", "trace.fidelity.error_shape")
CHECKS = (AuditCheck("trace.fidelity.lengths", "fidelity", lengths, ("semantic.oracle_max",), _ANSWERS),)
