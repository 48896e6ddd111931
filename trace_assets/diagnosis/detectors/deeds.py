"""What a call does where its tool's name does not say: one tool may stand for many deeds.

A shell runs programs, an editor has commands, an interface of the web has methods and paths, a browser clicks
what stands on the page. Without the deed's own name every such agent seems to do one thing again and again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from trace_assets.diagnosis.detectors.shell import command_line, line_deed, program_of
from trace_assets.diagnosis.detectors.verbs import READING, WRITING, deed, spoken

_SELECTS = frozenset({"action", "command", "cmd", "operation", "op", "service", "subcommand", "verb"})
"""Arguments that say what is done."""
_OF = ("domain", "resource", "object_type", "entity", "kind", "collection")
"""Arguments that say to what kind of thing."""
_SERVER = re.compile(r"\A(?:mcp__\w+?__|[\w-]+[/:](?=\w))")
"""The name of a server before that of its tool."""
_ACTS = frozenset({"act", "action", "do", "execute", "perform", "play", "step"})
"""Tools that take an order in words."""
_ORDER = re.compile(r"([a-z]{2,12})(?: (up|down|on|off))?(?: [\w-]+)+\Z", re.IGNORECASE)
_CODE = frozenset({"code", "python", "cell", "source"})
_CALLED_LAST = re.compile(r"(?:\.|\A|= ?)([a-z_]{3,24})\(")
"""What a line of code calls: a method, or a function that the line begins with."""
_DEED = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+){0,3}\Z")
_METHOD = re.compile(r"(?:get|post|put|patch|delete)\Z", re.IGNORECASE)
_REQUEST = re.compile(r"(?:https?[_-]?)?(get|post|put|patch|delete)(?:[_-]?request)?\Z", re.IGNORECASE)
"""Tools that are a method of the web."""
_BODY = frozenset({"body", "data", "headers", "json", "params", "payload", "query"})
"""Arguments of a request beside its place."""
PATHS = frozenset({"path", "url", "endpoint", "route", "uri"})
"""Arguments that name a place on the web."""
_SUBCOMMANDS = frozenset(
    {
        "apt",
        "aws",
        "az",
        "cargo",
        "glab",
        "heroku",
        "docker",
        "gcloud",
        "gh",
        "git",
        "go",
        "helm",
        "kubectl",
        "make",
        "npm",
    }
    | {"pip", "poetry", "systemctl", "terraform", "uv", "yarn"}
)
_MARKS = frozenset({"bid", "element", "element_id", "index", "mark", "node_id", "ref", "selector", "uid"})
"""Arguments that name what stands on a page."""
_CLICKS = frozenset({"click", "hit", "press", "tap"})
_PARTICLES = frozenset({"on", "off", "up", "down", "in", "out"})
_PAGE = re.compile(r"[^\W\d_]{2,}(?:[ _-][^\W\d_]{2,})*")
_PAGES = 4
"""Results in which a mark is looked for."""
_LABEL = 3
"""Words of an element's label, or parts of a path, that a deed is named after."""


def told_apart(tool: str, arguments: Mapping[str, Any], pages: Sequence[str] = ()) -> str:
    r"""Return the name of what a call does; the tool's own where its arguments say no more.

    Args:
        tool: As called.
        arguments: As called.
        pages: Results that the agent saw, the last one last.

    >>> told_apart("bash", {"command": "cd /app && git commit -m x"}), told_apart("get_order", {"id": "K1"})
    ('git_commit', 'get_order')
    >>> told_apart("run", {"command": "sed -i s/a/b/ m.py"}), told_apart("run", {"command": "npm test"})
    ('edit_file', 'run_tests')
    >>> told_apart("editor", {"command": "view", "path": "a.py"})
    'view'
    >>> told_apart("act", {"action": "take mug 1 from shelf 2"}), told_apart("mcp__shop__get_it", {"id": 1})
    ('take', 'get_it')
    >>> told_apart("run_cell", {"code": "df = df.drop_duplicates('order')"})
    'drop_duplicates'
    >>> told_apart("call", {"domain": "light", "service": "turn_on"}), told_apart("pay", {"service": "lipid"})
    ('turn_on_light', 'pay')
    >>> told_apart("request", {"method": "POST", "url": "https://a.example/v1/orders/17/cancel"})
    'cancel_orders'
    >>> told_apart("GET", {"url": "http://a.example/farm/Cow?tag=C-12"})
    'get_farm_cow'
    >>> told_apart("click", {"bid": "g9"}, ["[g2] textbox 'Street'\n[g9] button 'Save address'"])
    'save_address'
    >>> told_apart("cancel_booking", {"ref": "BK7"}, ['{"ref": "BK7", "paid": 64}'])
    'cancel_booking'
    """
    tool = _SERVER.sub("", tool) or tool
    lower = {name.lower(): value for name, value in arguments.items() if isinstance(value, str | int)}
    for name in _SELECTS & lower.keys():
        value = str(lower[name])
        if _DEED.match(value) and len(arguments) > 1 and (name != "service" or _is_verb(value)):
            return _with_thing(value, lower)
    if tool.lower() in _ACTS and (order := _ORDER.match(next(map(str, lower.values()), ""))):
        return "_".join(word.lower() for word in order.groups() if word)
    if set(lower) & _CODE and (called := _CALLED_LAST.findall(str(lower[next(iter(set(lower) & _CODE))]))):
        return str(called[-1])
    if done := line_deed(command_line(arguments)):
        return done
    if (program := program_of(arguments)) and re.fullmatch(r"[\w.+-]{1,24}", program):
        return _of_program(program, arguments)
    own = _REQUEST.match(tool)
    method = str(lower.get("method", own[1] if own else ""))
    path = next((str(lower[name]) for name in sorted(PATHS & lower.keys())), "")
    if path and _METHOD.match(method):
        return _of_path(method.lower(), _parts(path))
    if path and "://" in path:
        return "_".join([tool, *_parts(path)[:1]])  # what follows is rather what the page is about
    for name in sorted(_MARKS & lower.keys()):
        if label := _label(str(lower[name]), pages):
            return label if deed(tool).split()[0] in _CLICKS else f"{tool}_{label}"
    return tool


def says_deed(name: str, value: object, done: str) -> bool:
    """Tell whether an argument only says what is done: a command line, or words of the deed's name.

    >>> says_deed("domain", "light", "turn_on_light"), says_deed("room", "attic", "turn_on_light")
    (True, False)
    """
    words = str(value).lower().replace("-", "_")
    if name.lower() == "method":
        return True
    return bool(command_line({name: value})) or (name.lower() in _SELECTS | {*_OF} and words in done)


def _is_verb(value: str) -> bool:
    return spoken(value).split()[0] in READING | WRITING


def _with_thing(value: str, arguments: Mapping[str, Any]) -> str:
    """Return a deed with the kind of thing that it is done to, where it names none itself."""
    value = value.lower().replace("-", "_")
    words = [word for word in value.split("_") if word not in _PARTICLES]
    thing = next((str(arguments[name]) for name in _OF if name in arguments), "")
    return f"{value}_{thing}" if len(words) == 1 and _DEED.match(thing) and thing != value else value


def _of_program(program: str, arguments: Mapping[str, Any]) -> str:
    if program not in _SUBCOMMANDS and not program.endswith("ctl"):
        return program
    line = command_line(arguments)
    after = line.partition(program)[2].split()
    second = next((word for word in after if not word.startswith("-")), "")
    return f"{program}_{second}" if _DEED.match(second) else program


def _parts(path: str) -> list[str]:
    """Return the last parts of a path that are words and no identifiers."""
    parts = urlsplit(path).path.strip("/").split("/")
    return [one.lower().replace("-", "_") for one in parts if _DEED.match(one) and len(one) > 1][-_LABEL:]


def _of_path(method: str, parts: list[str]) -> str:
    """Return what a method does on a path: its last part may say it better than the method does.

    >>> _of_path("post", ["orders", "refunds"]), _of_path("get", ["orders"]), _of_path("patch", ["tickets"])
    ('refund_orders', 'get_orders', 'patch_tickets')
    """
    last = parts[-1] if parts else ""
    single = re.sub(r"ies$", "y", last) if last.endswith("ies") else last.removesuffix("s")
    if method == "post" and len(parts) > 1 and single in WRITING:
        return "_".join([single, *parts[:-1]])
    return "_".join([method, *parts])


def named_in_path(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands in a request's path and behind it: identifiers by the part before them, the query.

    >>> named_in_path({"method": "GET", "path": "/v2/orders/OT-13/lines?sort=date"})
    {'order': 'OT-13', 'sort': 'date'}
    >>> named_in_path({"url": "http://a.example/farm/Cow?tag=C-12"}), named_in_path({"path": "a/b-1"})
    ({'tag': 'C-12'}, {})
    """
    path = next((str(value) for name, value in arguments.items() if name.lower() in PATHS), "")
    lower = {name.lower() for name in arguments}
    if "method" not in lower and not ("://" in path and lower <= PATHS | _BODY):
        return {}
    try:
        place = urlsplit(path)
    except ValueError:
        return {}
    return {
        **{
            before.removesuffix("s"): one
            for before, one in pairwise(place.path.strip("/").split("/"))
            if _DEED.match(before) and any(character.isdigit() for character in one)
        },
        **{name.lstrip("_"): value for name, value in parse_qsl(place.query) if name.strip("_")},
    }


def _label(mark: str, pages: Sequence[str]) -> str:
    """Return the label of what the last page that shows a mark has under it, as words; empty without one."""
    sign = re.compile(rf"(?<![\w-]){re.escape(mark)}(?![\w-])")
    # What JSON quotes first in a line is a field's name: `ref` of a booking labels nothing.
    texts = (page for page in reversed(pages[-_PAGES:]) if not page.lstrip().startswith(("{", "[{")))
    shown = ((page, at) for page in texts if mark and (at := sign.search(page)))
    page, at = next(shown, ("", None))
    if at is None:
        return ""
    start = page.rfind("\n", 0, at.start()) + 1
    line = page[start : (page.find("\n", at.end()) + 1 or len(page) + 1) - 1]
    quoted = re.search(r"(['\"])(.+?)\1|>([^<>]+)<", line)
    words = _PAGE.findall((quoted[2] or quoted[3] or "").lower()) if quoted else []
    return "_".join(" ".join(words).replace("-", " ").split()[:_LABEL])
