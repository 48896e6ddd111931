"""English for generated names: tools and arguments as people say them, and words that ask for a tool."""

from __future__ import annotations

import re
from functools import lru_cache

from trace_assets.diagnosis.detectors.verbs import (
    BEGINS,
    ELSEWHERE,
    READING,
    WRITING,
    deed,
    has_stem,
    spoken,
    things,
    verb_of,
)

_DOUBLE = re.compile(r"(?:^|[^aeiou])[aeiou]([bdglmnprt])\Z")
_STRESSED = re.compile(
    r"(?:l|[^f]fer|[^i]mit|bug|cur|deter|get|gin|gram|mat|plan|plug|put|quip|run|set|shot|step|stop|tag)\Z"
)
"""Ends of longer verbs that double their last letter; of short ones all do."""


@lru_cache(maxsize=1 << 16)  # asked of the same few names for every record
def plain_name(field: str) -> str:
    """Return a field's name in lower case with underscores, however it is written; dots of a path stay.

    >>> plain_name("loan.dueDate"), plain_name("PERMIT_NO"), plain_name("valid-until")
    ('loan.due_date', 'permit_no', 'valid_until')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]+", "_", field).lower()


@lru_cache(maxsize=1 << 16)
def last_name(field: str) -> str:
    """Return the last part of a field's path as `plain_name` does: records stand in envelopes.

    >>> last_name("plan.dataLimit")
    'data_limit'
    """
    return plain_name(field).rpartition(".")[2]


_NAMING = frozenset(
    {"id", "ids", "number", "code", "name", "no", "nr", "num", "ref", "key", "identifier"}
    | {"uid", "guid", "uuid"}
)
"""Words by which an argument names something, which are not the thing itself."""


def noun(argument: str) -> str:
    """Return what an argument names.

    >>> noun("order_id"), noun("order"), noun("id"), noun("PERMIT_NO")
    ('order', 'order', 'object', 'permit')
    """
    words = [word for word in spoken(argument).split() if word not in _NAMING]
    return " ".join(words) or "object"


_PARTICLES = ("on ", "off ", "up ", "down ", "back ", "to ", "for ", "by ", "the ", "in ", "out ")
"""Words that go with a verb, or that no article comes before."""


def _verb_and_rest(name: str) -> tuple[str, str]:
    verb, _, rest = deed(name).partition(" ")
    particle, _, thing = rest.partition(" ")
    return verb, f"{particle} the {thing}" if thing and f"{particle} " in _PARTICLES[:5] else rest


def _leads(rest: str) -> bool:
    """Tell whether what follows a verb goes with it, so that no article comes before."""
    return f"{rest} ".startswith(_PARTICLES)


def ing(verb: str) -> str:
    """Return a verb as something one is doing, whether or not it is known as one.

    >>> ing("book"), ing("cancel"), ing("update"), ing("agree")
    ('booking', 'cancelling', 'updating', 'agreeing')
    >>> ing("register"), ing("refer"), ing("submit"), ing("visit"), ing("reset"), ing("put"), ing("offer")
    ('registering', 'referring', 'submitting', 'visiting', 'resetting', 'putting', 'offering')
    """
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    short = len(re.findall(r"[aeiou]+", verb)) == 1
    if _DOUBLE.search(verb) and (short or _STRESSED.search(verb)):
        return verb + verb[-1] + "ing"
    return verb + "ing"


def gerund(name: str) -> str:
    """Return a tool's name as something one is doing.

    >>> gerund("cancel_order"), gerund("update_address"), gerund("set_mode"), gerund("callTransfer")
    ('cancelling the order', 'updating the address', 'setting the mode', 'transferring the call')
    >>> gerund("pay_back"), gerund("credit_note"), gerund("orderEnter")
    ('paying back', 'crediting the note', 'entering the order')
    >>> gerund("cita_anular"), gerund("open_file")
    ("calling 'cita anular'", 'opening the file')
    """
    verb, rest = _verb_and_rest(name)
    if verb in ELSEWHERE or verb not in READING | WRITING:
        return f"calling '{spoken(name)}'"
    form = ing(verb)
    return f"{form} the {rest}" if rest and not _leads(rest) else f"{form} {rest}".strip()


def imperative(name: str, *, by_name: bool = True) -> str:
    """Return a tool's name as an order: `cancel_order` is `cancel the order`.

    Args:
        name: The tool's.
        by_name: Call a tool by its name where its verb is unknown; else, as users would, take it for a verb.

    >>> imperative("get_order"), imperative("transfer_to_human_agents")
    ('get the order', 'transfer to human agents')
    >>> imperative("drop_tests"), imperative("drop_tests", by_name=False)
    ("call 'drop tests'", 'drop the tests')
    """
    verb, rest = _verb_and_rest(name)
    if verb in ELSEWHERE or (by_name and verb not in READING | WRITING):
        return f"call '{spoken(name)}'"
    return f"{verb} the {rest}" if rest and not _leads(rest) else f"{verb} {rest}".strip()


_CHECKING = frozenset(
    {"authenticate", "calculate", "check", "compare", "compute", "estimate", "identify", "inspect"}
    | {"scan", "test", "validate", "verify"}
)
"""Verbs of reading tools that do more than look something up."""
_SAYS_NOTHING = frozenset({"by", "data", "detail", "details", "for", "id", "info", "information", "record"})
"""Words of reading tools' names that tell nothing of what is shown."""


def look(name: str, thing: str) -> str:
    """Return what a reading tool does with a thing, as an order.

    A look that shows something else of the thing is called by that: of one employee there may be a record and
    an approval.

    >>> look("get_order", "order"), look("checkIdentity", "tenant"), look("get_details_by_id", "line")
    ('look up the order', 'check the identity', 'look up the line')
    >>> look("get_approval", "employee"), look("find_booking", "object"), look("holen", "sendung")
    ('get the approval', 'find the booking', 'look up the sendung')
    """
    verb = _verb_and_rest(name)[0]
    shown = [word for word in things(name) if word not in _SAYS_NOTHING]
    other = verb in READING and bool(shown) and not any(has_stem(thing.split(), word) for word in shown)
    return imperative(name) if verb in _CHECKING or other else f"look up the {thing}"


def title(sentence: str) -> str:
    """Return a sentence with a capital first letter and nothing else changed."""
    return sentence[:1].upper() + sentence[1:]


STOP_WORDS = frozenset(
    """
    about after again also always and another any anything are around because been before being both but
    can could did does doing done don each else even ever every exactly few first for from get getting
    give going gonna good got great had has have haven hello help here hey him his how into its just
    keep know let like little look looking made make many may maybe might more most much must myself
    need needed never new not nothing now okay one only other our own please quick quite rather really
    right same say see seeing seems she should since some something soon sorry still such sure take tell
    than thank thanks that the their them then there these they thing things think this those through
    too try trying two until use used using very want was way well were what when which while who why
    will with without won would yes yet you your
    """.split()  # noqa: SIM905 - a list of words reads better than a list of literals
)
"""English words that ask for nothing; other languages do without."""


def asks_for(tool: str, word: str) -> bool:
    """Tell whether a word is a form of a tool's verb: who says it asks for what the tool does.

    >>> [asks_for("cancel_order", word) for word in ("cancelled", "order", "canopy")]
    [True, False, False]
    >>> asks_for("start_assay", "assay"), asks_for("issue_refund", "refund")
    (True, True)
    """
    verb, _, rest = deed(tool).partition(" ")
    return named_after(verb, word) or (
        (verb in BEGINS or verb_of(tool) != verb) and named_after(rest.split(" ")[0], word)
    )


def named_after(tool: str, word: str) -> bool:
    """Tell whether a word is one of those in a tool's name, give or take its ending.

    >>> named_after("cancel_order", "cancelled"), named_after("cancel_order", "can")
    (True, False)
    """
    return any(
        len(part) >= 4 and word[: max(4, len(part) - 1)] == part[: max(4, len(part) - 1)]
        for part in spoken(tool).split()
    )
