"""Which tools change the environment: from their specification, their verb, or what reads show after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.records import ToolSpec

READING = frozenset(
    """
    browse calculate can check compare compute count describe estimate explain fetch find get has
    inspect is know list look lookup preview query read retrieve run search show test think validate
    verify view
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
)
"""Verbs of tools that only look."""
WRITING = frozenset(
    """
    activate add apply approve assign book buy cancel change close connect create deactivate delete
    disable disconnect edit enable escalate exchange grant insert install issue make modify move open
    order pay post put reboot refuel refund register reject remove rename reseat reset restart resume
    return revoke schedule sell send set submit subscribe suspend toggle transfer uninstall unsubscribe
    update write
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
)
"""Verbs of tools that change something."""
NOUNS = frozenset(
    """
    address book change check close count edit estimate exchange issue list look open order post preview
    query return run schedule search set show test transfer view
    """.split()  # noqa: SIM905 - one word after the other reads better than a list of literals
)
"""Words of both lists that are nouns when they are not the first word of a name."""
CHANGED_SHARE = 0.2
"""Share of reads that must differ after a call of a tool without a telling verb."""


def mutating_tools(
    transcripts: Sequence[Transcript], specs: Sequence[ToolSpec] = (), names: Iterable[str] = ()
) -> frozenset[str]:
    """Return the names of the tools that change state, of those called and of those in `names`.

    A specification that says so decides; then the verb in the name; a tool without a telling verb counts
    when the same read, made before and after it with no other unknown or writing call between, often
    answers differently.
    """
    known = {spec.name: spec.mutates for spec in specs if spec.mutates is not None}
    called = {tool for one in transcripts for tool in one.by_tool}.union(names)
    verdicts: dict[str, bool | None] = {name: known.get(name, _by_verb(name)) for name in called}
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


def hands_over(tool: str) -> bool:
    """Tell whether a tool hands the conversation to somebody else, by its name.

    >>> hands_over("transfer_to_human_agents"), hands_over("cancel_order")
    (True, False)
    """
    return any(word in tool.lower() for word in ("transfer", "escalat", "handoff", "hand_over", "human"))
