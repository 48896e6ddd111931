"""Which tools change the environment: from their specification, their verb, or what reads show after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.records import ToolSpec

READING = frozenset(
    "get find search list check look lookup read show fetch query calculate compute view describe can is has "
    "count think retrieve verify inspect test browse run know validate estimate compare preview explain".split()
)
"""Verbs of tools that only look."""
WRITING = frozenset(
    "update cancel modify set create delete remove add book send exchange return refund enable disable toggle "
    "reset grant revoke make pay transfer escalate change edit write insert put post submit assign close open "
    "approve reject resume suspend activate deactivate refuel reboot restart install uninstall move rename "
    "schedule order buy sell connect disconnect register subscribe unsubscribe apply issue reseat".split()
)
"""Verbs of tools that change something."""
NOUNS = frozenset(
    "order book list set address count issue exchange return transfer schedule change run show view post test "
    "edit open close preview estimate search check query look".split()
)
"""Words of both lists that are nouns when they are not the first word of a name."""
CHANGED_SHARE = 0.2
"""Share of reads that must differ after a call of a tool without a telling verb."""


def mutating_tools(transcripts: Sequence[Transcript], specs: Sequence[ToolSpec] = ()) -> frozenset[str]:
    """Return the names of the tools that change state.

    A specification that says so decides; then the verb in the name; a tool without a telling verb counts
    when the same read, made before and after it with no other unknown or writing call between, often
    answers differently.
    """
    known = {spec.name: spec.mutates for spec in specs if spec.mutates is not None}
    names = {tool for one in transcripts for tool in one.by_tool}
    verdicts: dict[str, bool | None] = {name: known.get(name, _by_verb(name)) for name in names}
    unknown = {name for name, verdict in verdicts.items() if verdict is None}
    if unknown:
        verdicts.update(
            _by_effect(transcripts, unknown, {name for name, v in verdicts.items() if v is False})
        )
    return frozenset(name for name, verdict in verdicts.items() if verdict)


def _by_verb(name: str) -> bool | None:
    """Return whether a tool's verb says that it writes; None when it says nothing.

    >>> _by_verb("get_order"), _by_verb("cancel_order"), _by_verb("frobnicate")
    (False, True, None)
    """
    for place, word in enumerate(spoken(name).split()):
        if place and word in NOUNS:
            continue
        if word in READING:
            return False
        if word in WRITING:
            return True
    return None


def _by_effect(transcripts: Sequence[Transcript], unknown: set[str], reads: set[str]) -> dict[str, bool]:
    same, differ = Counter[str](), Counter[str]()
    for one in transcripts:
        last: dict[tuple[str, str], str] = {}
        between: list[Step] = []
        for step in one.steps:
            if step.tool not in reads:
                between.append(step)
                continue
            key = (step.tool, repr(sorted(step.arguments.items(), key=str)))
            if key in last and len({other.tool for other in between}) == 1 and between[0].tool in unknown:
                (differ if last[key] != step.result else same)[between[0].tool] += 1
            if key in last:
                between = []
            last[key] = step.result
    return {
        name: differ[name] > 0 and differ[name] >= CHANGED_SHARE * (differ[name] + same[name])
        for name in unknown
    }
