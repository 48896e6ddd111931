"""How a request is worded: as users of the target did where that was learned, else by names of its tools."""

from __future__ import annotations

from typing import Any

from trace_assets.diagnosis.detectors.wording import gerund, imperative, noun, spoken
from trace_assets.records import ToolSpec
from trace_assets.synthesis.contract.guards import Guard
from trace_assets.synthesis.contract.phrasing import RequestPattern
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.recipes.arguments import Sources

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
    do, thing = imperative(tool.name), noun(key)
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

    >>> participle("cancel_order"), participle("modify_order"), participle("send_note")
    ('cancelled', 'modified', 'sent')
    """
    verb = spoken(tool).split()[0]
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return gerund(verb)[:-3] + "ed"
