"""What may be asked for in a scene: changes by one tool each, and questions that only a look answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.verbs import deed, spoken
from trace_assets.diagnosis.detectors.wording import imperative, ing, noun
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.preconditions import Guard
from trace_assets.environments.contract.requests import Closing
from trace_assets.environments.contract.wording import RequestPattern
from trace_assets.environments.templates.object_context import Ground, Sources, sources_of, thin
from trace_assets.environments.templates.policy_conditions import right_by_rule
from trace_assets.errors import InputError
from trace_assets.records import ToolSpec

REFUSED = {"text": "I am sorry, but that is not possible.", "words": [], "fields": []}
MAX_STATES = 8
"""A field with more values than this is not asked about."""
MAX_WISHES = 5


def sources(ground: Ground, tool: str) -> Sources:
    """Return where a tool's arguments come from; none are needed where requests of users were learned."""
    if patterns_for(ground.contract, tool):
        return Sources(selects=dict(ground.guard(tool).selects))
    return sources_of(ground.contract, ground.contract.tool(tool), ground.guard(tool), ground.record)


def wish(ground: Ground, guard: Guard) -> dict[str, Any]:
    """Return the wish for what one writing tool does (or, where it is the reading tool, for its answer).

    Raises:
        InputError: No wording is known and none can be built: an argument has no known values.
    """
    learned = patterns_for(ground.contract, guard.tool)
    filled = sources(ground, guard.tool)
    if filled.missing:
        names = ", ".join(f"'{name}'" for name in filled.missing)
        raise thin(
            ground.spec,
            f"no wording of a request for '{guard.tool}' is known from a successful trajectory, and none can "
            f"be built, because no values of its argument {names} are known",
        )
    if filled.copies and not filled.values:
        raise thin(ground.spec, f"nothing that '{guard.tool}' would change can be said in a request")
    return {
        "tool": guard.tool,
        "reads_only": guard.tool == guard.read,
        "wordings": requests_for(ground.contract, guard)
        if learned
        else built_requests(ground.contract.tool(guard.tool), guard, filled, ground.owner),
        "selects": {**guard.selects, **filled.selects},
        "records": {
            field: values for field, values in guard.records.items() if learned or field != ground.owner
        }
        | right_by_rule(ground, guard.tool),
        "closing": closing_of(ground.contract.closing(guard.tool) if not ground.user_answers else None),
        "guard": None,
    }


def free_wishes(ground: Ground, tools: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the wishes that no condition decides.

    Args:
        ground: The object.
        tools: Only of these; empty takes all that can be worded, at most `MAX_WISHES`.

    Raises:
        InputError: There is none.
    """
    found, reasons = [], []
    for name in tools or [tool.name for tool in ground.writes if not hands_over(tool.name)]:
        guard = ground.guard(name)
        if not tools and guard.field and patterns_for(ground.contract, name):
            continue
        try:
            found.append(_allowed(wish(ground, guard), guard))
        except InputError as error:
            reasons.append(error)
    if not found:
        raise (
            reasons[0]
            if reasons
            else thin(ground.spec, f"no request about one '{ground.key}' is known that no condition decides")
        )
    return found[:MAX_WISHES]


def _allowed(wish: dict[str, Any], guard: Guard) -> dict[str, Any]:
    """Keep a guarded write to states in which it is right."""
    if guard.field and guard.allowed:
        wish["records"] = {**wish["records"], guard.field: list(guard.allowed)}
    return wish


def look(ground: Ground) -> Guard:
    """Return the guard of a request that only looks."""
    return Guard(tool=ground.read, read=ground.read, object_argument=ground.key, records={}, selects={})


def questions(ground: Ground) -> list[dict[str, Any]]:
    """Return the wishes for an answer that only the record gives: fields of few values that words tell apart.

    Raises:
        InputError: The record has no such field.
    """
    if patterns_for(ground.contract, ground.read):
        known = wish(ground, look(ground))
        if known["closing"]["fields"]:
            return [known]
    found = []
    for field, held in ground.record["properties"].items():
        values = [v for v in held.get("enum", ()) if isinstance(v, str)]
        if 2 <= len(values) <= MAX_STATES and _apart(values) and field not in (ground.key, ground.read_key):
            text = f"The {field.replace('_', ' ')} is {{.{field}}}."
            found.append(
                {
                    "tool": ground.read,
                    "reads_only": True,
                    "wordings": built_questions(ground.key, field, ground.owner),
                    "selects": {},
                    "records": {},
                    "closing": {"text": text, "words": [], "fields": [field]},
                    "guard": None,
                }
            )
    if not found:
        raise thin(ground.spec, f"'{ground.read}' shows no field of few values that could be asked about")
    return found[:MAX_WISHES]


def _apart(values: Sequence[str]) -> bool:
    """Tell whether no value is part of another, so that a reply names one of them only."""
    plain = [" ".join("".join(c if c.isalnum() else " " for c in v.lower()).split()) for v in values]
    return all(f" {a} " not in f" {b} " for a in plain for b in plain if a != b) and len(set(plain)) == len(
        plain
    )


def condition(
    ground: Ground,
    field: str,
    allowed: Sequence[str],
    forbidden: Sequence[str],
    instead: str,
    usual: dict[str, Any],
) -> dict[str, Any]:
    """Return what a guarded wish hangs on, and what is done where it is forbidden."""
    contract = ground.contract
    arguments: dict[str, Any] = {}
    if instead:
        schema = contract.tool(instead).parameters
        own = {ground.key: ""} if ground.key in schema.get("properties", {}) else {}
        arguments = in_order(contract, instead, {**own, **_required(ground, instead, usual)})
    return {
        "field": field,
        "allowed": list(allowed),
        "forbidden": list(forbidden),
        "instead": instead,
        "arguments": arguments,
        "closing": closing_of(contract.closing(instead))
        if instead and not ground.user_answers
        else dict(REFUSED),
    }


def _required(ground: Ground, tool: str, usual: dict[str, Any]) -> dict[str, Any]:
    """Return values for a tool's required arguments: the usual ones, else the first of its enum."""
    parameters = ground.contract.tool(tool).parameters
    properties = parameters.get("properties", {})
    return {
        name: usual.get(name, (properties.get(name, {}).get("enum") or ["other"])[0])
        for name in parameters.get("required", ())
    }


def closing_of(closing: Closing | None) -> dict[str, Any]:
    """Return how a conversation ends, as the module writes it."""
    if closing is None:
        return {"text": "Done.", "words": [], "fields": []}
    return {"text": closing.text, "words": list(closing.words), "fields": list(closing.fields)}


# How a request is worded: as users of the target did where that was learned, else by names of its tools.


REQUESTS = (
    "Please {do}{with}.",
    "I would like to {do}{with}.",
    "Can you {do}{with}?",
    "I need you to {do}{with}.",
    "It would help me if you could {do}{with}.",
    "Could you {do} for me{with}?",
)
QUESTIONS = (
    "What is the {field} of {object}?",
    "Can you tell me the {field} of {object}?",
    "I would like to know the {field} of {object}.",
    "Please look up the {field} of {object}.",
)
OPENINGS = ("", "Hi. ", "Hello. ", "Good morning. ", "Good evening. ", "Excuse me. ")
CLOSINGS = ("", " Thanks.", " Thank you very much.", " It is rather urgent.")
FRAMES = ("{first} And another thing: {second}", "Two things. {first} {second}", "{first} Also: {second}")
IRREGULAR = {
    "book": "booked",
    "buy": "bought",
    "make": "made",
    "pay": "paid",
    "put": "put",
    "sell": "sold",
    "send": "sent",
    "set": "set",
}
DENIALS = ("not", "no", "nothing", "never", "cannot", "unable", "without", "t", "before", "until", "if")
"""Words of sentences that do not say that something was done; `t` is what is left of `can't`."""


def patterns_for(contract: TargetContract, tool: str) -> list[RequestPattern]:
    """Return the wordings of requests for a tool that were learned from trajectories."""
    return [p for p in contract.phrasing.patterns if p.goal is not None and p.goal.tool == tool]


def in_order(contract: TargetContract, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments in the order of the tool's schema, as demonstrations write them."""
    names = list(contract.tool(tool).parameters.get("properties", {}))
    return {
        name: arguments[name]
        for name in sorted(arguments, key=lambda n: names.index(n) if n in names else 99)
    }


def requests_for(contract: TargetContract, guard: Guard) -> list[dict[str, Any]]:
    """Return the learned wordings of requests for a tool: text and argument -> slot."""
    return [
        {"text": p.text, "arguments": in_order(contract, guard.tool, p.goal.arguments)}
        for p in patterns_for(contract, guard.tool)
        if p.goal
    ]


def built_requests(tool: ToolSpec, guard: Guard, sources: Sources, who: str) -> list[dict[str, Any]]:
    """Return wordings of requests for a tool that are made of the names of the tool and of its arguments.

    Args:
        tool: The writing tool.
        guard: Which argument names the object.
        sources: What else it needs; all of it is said.
        who: A field of the record that says whose it is; empty when none does.
    """
    key = guard.object_argument
    told = [*sources.values, *sources.selects]
    given = [f"{spoken(name)} {{{name}}}" for name in told]
    given += [f"the {spoken(name)} as they are" for name in sources.copies]
    with_ = f", with {', '.join(given)}" if given else ""
    do, thing = imperative(tool.name, by_name=False), noun(key)
    do = f"{do} {{{key}}}" if do.endswith(thing) else f"{do} of {thing} {{{key}}}"
    arguments = {key: key} | {name: name for name in [*told, *sources.copies]}
    names = list(tool.parameters.get("properties", {}))
    arguments = {name: arguments[name] for name in sorted(arguments, key=names.index)}
    return [
        {"text": text.format(do=do, **{"with": with_}) + _introduced(who), "arguments": arguments}
        for text in REQUESTS
    ]


def built_questions(key: str, field: str, who: str) -> list[dict[str, Any]]:
    """Return wordings of a question about one field of an object."""
    thing = f"{noun(key)} {{{key}}}"
    return [
        {"text": text.format(field=spoken(field), object=thing) + _introduced(who), "arguments": {key: key}}
        for text in QUESTIONS
    ]


def _introduced(who: str) -> str:
    return f" My {spoken(who)} is {{{who}}}." if who else ""


def without(text: str, slot: str, argument: str, *, is_object: bool) -> str:
    """Return a wording that leaves a value out, and says no more than that there is one.

    >>> without("send order {order} to {city}", "city", "city", is_object=False)
    'send order {order} to another city'
    >>> without("cancel order {order}", "order", "order", is_object=True)
    'cancel my order'
    """
    thing = noun(argument) if is_object else spoken(argument)
    hole = "{" + slot + "}"
    other = f"my {thing}" if is_object else f"another {thing}"
    for before in (f"my {thing} {hole}", f"the {thing} {hole}", f"{thing} {hole}", f"a {hole}", hole):
        if before in text:
            return text.replace(before, other)
    return text


def participle(tool: str) -> str:
    """Return the word that says that a tool's work is done.

    >>> [participle(tool) for tool in ("cancel_order", "modify_order", "send_note", "drop_tests")]
    ['cancelled', 'modified', 'sent', 'dropped']
    """
    verb = deed(tool).split()[0]
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return ing(verb)[:-3] + "ed"
