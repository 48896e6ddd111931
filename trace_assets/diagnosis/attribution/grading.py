"""Rules on the grader and the tools: what the environment owed the agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trace_assets.diagnosis.attribution.case import Case, Ruling
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.shell import runs_programs
from trace_assets.diagnosis.detectors.values import leaves, records_in
from trace_assets.diagnosis.detectors.wording import last_name, plain_name
from trace_assets.records import ActionDiff, ExpectedAction

_BROKEN = (
    r"no space left on device|input/output error|process (?:has )?died|"
    r"disk quota exceeded|read-only file system|too many open files|"
    r"(?:container|sandbox|pod|virtual machine)\b[^.\n]{0,60}\b(?:is not running|not found|has died|died|"
    r"crashed|was killed|is gone|unavailable)|"
    r"(?:terminating|server closed the|lost|closed the) connection\b|connection (?:to [^\n]{1,40} )?"
    r"(?:was |is |has been )?(?:lost|closed|dropped|broken)|ORA-031(?:13|14)|SQLSTATE (?:08|57P|58)\w+|"
    r"no healthy upstream|upstream connect error|remote end closed|"
    r"(?:worker|process|server|service|backend)\b[^.\n]{0,40}\b(?:crashed|died|was killed|has gone away)|"
    r"(?:container|kernel|sandbox|runtime|pod|session)\b[^.\n]{0,40}\b(?:exited|died|terminated|not running)|"
    r"\b50[234] (?:Service Unavailable|Bad Gateway|Gateway Time-?out)|cluster unreachable|"
    r"no space left on device|locked by another process|"
    r"net::ERR_(?:CONNECTION|NAME|NETWORK|INTERNET|TIMED|EMPTY)\w*|\w*crashed: |"
    r"exited with (?:signal|code 1(?:37|39))|"
    r"verbindung\b[^.\n]{0,40}\b(?:verloren|unterbrochen|abgebrochen|getrennt)|"
    r"vor\u00fcbergehend nicht (?:erreichbar|verf\u00fcgbar)|interner (?:server)?fehler|"
    r"conexi\u00f3n\b[^.\n]{0,40}\b(?:perdida|cerrada|interrumpida|rechazada)|"
    r"error interno del servidor|temporalmente (?:fuera de servicio|no disponible)|"
    r"connexion\b[^.\n]{0,40}\b(?:perdue|interrompue|refus\u00e9e|ferm\u00e9e)|erreur interne du serveur|"
    r"temporairement indisponible"
)
"""What a machine says that no agent's call can bring about; also in German, Spanish and French."""
_UNAVAILABLE = (
    r"Internal (?:Server )?Error|(?:Service|Temporarily)[ _](?:Unavailable|not available)|"
    r"\b(?:controller|server|service|device|backend|database)[ _](?:is )?(?:offline|locked|down)\b|"
    r"\b(?:not responding|did not respond|unreachable)\b|time(?:d )?-?out (?:waiting|after|while)|"
    r"\b(?:error|erreur|fehler|status|http|code)\W{1,4}(?:50[0234]|429)\b|"
    r"\brequest timed out\b|\bservi[\u00e7cz]\w+\b[^.\n]{0,20}\b(?:indispon\w+|non disponibile)|"
    r"upstream[ _]unavailable|Bad Gateway|"
    r"Gateway Time-?out|Connection (?:refused|reset|aborted|timed out)|i/o timeout|"
    r"(?:unable|failed) to connect|(?:could|can) ?not connect|no se pudo conectar|"
    r"impossible de se connecter|konnte (?:sich )?nicht verb[iu]nden"
)
_EXCEPTION = re.compile(
    rf"Traceback \(most recent call last\)|Segmentation fault|{_UNAVAILABLE}|{_BROKEN}|"
    # What a bug raises. ValueError, TypeError and their like are left out: tools refuse with them.
    r"\b(?:Key|Attribute|Index|Name|ZeroDivision|Runtime|Assertion|Recursion|Memory|Connection|Timeout|"
    r"JSONDecode|Operational|UnboundLocal|NotImplemented|ModuleNotFound|Import)(?:Error|Exception)\b",
    re.IGNORECASE,
)
_MACHINE = re.compile(_BROKEN, re.IGNORECASE)
_NO_SUCH_KEY = re.compile(r"\bKeyError: *(['\"]?)(?P<key>[^\n]*?)\1 *$", re.MULTILINE)
"""What a tool in Python says that looked a value up without asking first whether it is there."""
_START = 400
"""Characters of a result in which an exception is looked for: longer results are data."""


def not_judged(case: Case) -> Ruling | None:
    """There is no verdict, or a check that success requires did not run and none that ran failed."""
    one = case.trajectory
    if one.success is None:
        return Ruling("environment", "reward_missing", (), "the grader gave no reward")
    gates = [check for check in one.checks if check.gates]
    silent = [check.name for check in gates if check.passed is None]
    if silent and not any(check.passed is False for check in gates):
        return Ruling("environment", "check_missing", (), f"these checks did not run: {', '.join(silent)}")
    return None


def tool_exception(case: Case) -> Ruling | None:
    """A tool broke rather than refused, and was never called successfully afterwards.

    A tool that raises a `KeyError` over nothing, or over a value that the call gave, was asked for what is
    not there: mostly that is its way to refuse, so it only makes suspicious (`tool_error_on_value`).
    """
    doubtful: Ruling | None = None
    transcript = case.transcript
    for step in transcript.steps:
        if step.answer is None:
            continue
        text = step.result[:_START]
        if not step.failed and text.lstrip().startswith(("{", "[")):
            continue  # no exception begins so
        found = (_MACHINE if runs_programs(step.arguments) else _EXCEPTION).search(text)
        if found is None or not (step.failed or text.lstrip().startswith(("Traceback", found.group(0)))):
            continue
        if any(later.index > step.index for later in transcript.calls(step.tool, ok=True)):
            continue
        detail = f"{step.tool} broke: {step.result[:_START].strip().splitlines()[-1][:200]}"
        at = (step.index, step.answer)
        if not _looked_up_in_vain(text, step.arguments):
            return Ruling("environment", "tool_exception", at, detail)
        doubtful = doubtful or Ruling("environment", "tool_error_on_value", at, detail)
    return doubtful


def _looked_up_in_vain(text: str, arguments: Any) -> bool:
    """Tell whether a result is an error over a key that is nothing, or that the call itself gave.

    >>> _looked_up_in_vain("KeyError: 'A1'", {"book": "A1"}), _looked_up_in_vain("KeyError: None", {})
    (True, True)
    >>> _looked_up_in_vain("KeyError: 'index'", {"book": "A1"})
    False
    """
    found = _NO_SUCH_KEY.search(text.strip())
    if found is None:
        return False
    return found["key"] in ("", "None") or any(
        normal(value) == normal(found["key"]) for _, value in leaves(arguments)
    )


def missing_tool(case: Case) -> Ruling | None:
    """The task expects a change by a tool that the agent was not given, and never made by anybody.

    A log that lists fewer tools than were called says nothing of those that it leaves out.
    """
    called = {step.tool for step in case.transcript.steps}
    if not case.given or called - case.given:
        return None
    for action in case.expected_writes:
        if action.requestor == "assistant" and action.name not in case.given:
            detail = (
                f"the task expects '{action.name}', which is not among the agent's {len(case.given)} tools"
            )
            return Ruling("environment", "missing_tool", (), detail)
    return None


def lost_write(case: Case) -> Ruling | None:
    """A tool reported a change as made, a later look at the object shows it unmade, and all else is right.

    Looked at are texts and numbers under the argument's own name in the object's record, before any other
    change of it.
    """
    if case.diffs != []:
        return None
    steps = case.transcript.steps
    for step in steps:
        if step.failed or step.tool not in case.writes or step.answer is None:
            continue
        given = {
            plain_name(name): value
            for name, value in step.arguments.items()
            if isinstance(value, str | int | float) and not isinstance(value, bool)
        }
        look = next(
            (
                other
                for other in steps
                if other.index > step.end and not step.objects.isdisjoint(other.objects)
            ),
            None,
        )
        if look is None or look.failed or look.tool in case.writes or look.answer is None:
            continue
        shown = records_in(look.result)
        fields = {last_name(name): value for name, value in shown[0].items()} if len(shown) == 1 else {}
        for name, value in given.items():
            if name in fields and not _same_value(fields[name], value):
                detail = f"{step.tool} set {name} to {value!r}, and {look.tool} then showed {fields[name]!r}"
                return Ruling("environment", "lost_write", (step.index, look.answer), detail)
    return None


def _same_value(shown: str, given: str | float) -> bool:
    """Tell whether a record shows what a call gave, numbers as numbers.

    >>> _same_value("900.0", 900), _same_value("#K1", "k1"), _same_value("500", 900)
    (True, True, False)
    """
    if isinstance(given, str):
        return normal(shown) == normal(given)
    try:
        return float(shown) == float(given)
    except ValueError:
        return False


# Rules on the task's ground truth: it asks for what cannot or must not be, and the run fails on just that.


def wrong_demand(case: Case) -> Ruling | None:
    """What the run lacks is what the records or the policy say must not be asked for."""
    doubts = [one for one in case.doubts if one.grade == "wrong"]
    diffs = [row for row in case.diffs or () if not (row.kind == "surplus" and hands_over(row.tool))]
    if not doubts or not diffs:
        return None
    for doubt in doubts:
        concerned = [case.expected_writes[place] for place in doubt.places]
        altered = [row for row in diffs if row.kind == "altered"]
        missed = [row for row in diffs if row.kind == "missed"]
        if any(row.kind == "surplus" for row in diffs):
            continue
        if any(not _is_of(row, concerned) or not set(row.changed) <= set(doubt.arguments) for row in altered):
            continue
        # What comes after it need not have been reached, what comes before should have been done.
        if missed and not _is_of(missed[0], concerned):
            continue
        evidence = tuple(row.message for row in altered if row.message is not None)
        return Ruling("ground_truth", doubt.rule, evidence or _end(case), doubt.detail)
    return None


def superseded_step(case: Case) -> Ruling | None:
    """All that is missing is a step which the last one, done as expected, overwrites."""
    diffs = case.diffs
    if not diffs or any(row.kind != "missed" for row in diffs):
        return None
    wanted = case.expected_writes
    for row in diffs:
        place = next((n for n, one in enumerate(wanted) if _is_of(row, [one])), None)
        if place is None:
            return None
        later = [
            one for one in wanted[place + 1 :] if one.name == row.tool and _same_object(one, wanted[place])
        ]
        done = [one for one in later if not any(_is_of(other, [one]) for other in diffs)]
        if not any(one.arguments.keys() >= wanted[place].arguments.keys() for one in done):
            return None
    evidence = tuple(step.index for step in case.transcript.calls(diffs[0].tool, ok=True))[-1:]
    detail = f"only {diffs[0].tool} in between is missing, which the last call, made as expected, overwrites"
    return Ruling("ground_truth", "superseded_step", evidence, detail)


def _is_of(row: ActionDiff, actions: Sequence[ExpectedAction]) -> bool:
    return any(row.tool == one.name and row.expected_arguments == one.arguments for one in actions)


def _same_object(one: ExpectedAction, other: ExpectedAction) -> bool:
    first = next((normal(value) for value in one.arguments.values() if looks_like_id(value)), None)
    return first is not None and any(normal(value) == first for _, value in leaves(other.arguments))


def _end(case: Case) -> tuple[int, ...]:
    return (case.transcript.last_of_agent(),) if case.messages else ()
