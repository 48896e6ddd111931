"""The module in a model's reply: found by parsing, never by running anything."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.request import A, Answer, Question
from trace_assets.environments.writers.prompt import render
from trace_assets.policies.hermes import cut_out

FUNCTIONS = ("tools", "reset", "step", "verdict", "oracle")
MOST_CHARACTERS = 200_000
"""A longer module is no module for us."""
LONGEST_REMARK = 400
_BEGINNING = 30
"""Characters of a module by which it is known again."""
_OVERLAP = 15
"""A continuation repeats the end before it where they share more characters than this, blanks left out."""
_TRIMS = 60
"""Lines of closing words that are cut off behind unfenced code, one at a time."""

ReplyKind = Literal["module", "refusal", "empty", "cut", "no_code", "unapplied"]

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n]*\n", re.MULTILINE)
_CODE_LINE = re.compile(r'^(?:from \w|import \w|def \w|class \w|@\w|"""|[A-Z_]{2,}\s*[:=])', re.MULTILINE)
_REFUSAL = re.compile(
    r"\b(?:(?:can(?:no|')t|cannot|can not|unable to|won't|will not)\s+(?:help|assist|comply|do|write|provide|"
    r"create|fulfil|generate|produce)|i(?:'m| am)\s+sorry|against my|not able to|decline)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Found:
    """What a reply held.

    Attributes:
        kind: `module` where there is code, good or bad; otherwise why there is none.
        source: The module's text, ending in a line break; empty without one.
        remark: The words of a reply without code, shortened, in one line.
    """

    kind: ReplyKind
    source: str = ""
    remark: str = ""


def find_module(text: str, *, cut: bool = False) -> Found:
    r"""Return the module in a reply.

    Code may stand in a fence, in several (the one that defines most of the protocol counts, or all of them
    together where only that makes a whole), in one that is never closed, or bare among words.

    >>> find_module("Sure!\n```python\ndef tools():\n    return []\n```\nEnjoy.").source
    'def tools():\n    return []\n'
    >>> find_module("I'm sorry, I cannot help with that.").kind
    'refusal'
    """
    spoken = _spoken(text)
    best = max(_candidates(spoken), key=_worth, default="")
    if not best or not _looks_like_code(best):
        return Found(_without(spoken, cut), remark=" ".join(spoken.split())[:LONGEST_REMARK])
    if cut and not parses(best):
        return Found("cut", best.strip("\n") + "\n", "the reply ended before the module did")
    return Found("module", best.strip("\n") + "\n")


def find_mended(text: str, source: str, *, cut: bool = False) -> Found:
    r"""Return the module in a reply that may hold changes to a version instead of a whole module.

    Args:
        text: All that the model said.
        source: The version that was to be changed; empty where there is none.
        cut: As for `find_module`.

    >>> find_mended("<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE", "a = 1\nb = 1\n").source
    'a = 2\nb = 1\n'
    """
    whole = find_module(text, cut=cut)
    if not source or (whole.kind == "module" and _is_protocol(whole.source)):
        return whole
    try:
        changes = changes_in(_spoken(text))
        return Found("module", patched(source, changes)) if changes else whole
    except PatchError as error:
        return Found("unapplied", remark=str(error)[:LONGEST_REMARK])


def parses(source: str) -> bool:
    """Tell whether a text is Python, without running it."""
    return not problem(source)


def problem(source: str) -> str:
    """Return why a text is not Python, empty where it is; nothing is run or compiled."""
    if len(source) > MOST_CHARACTERS:
        return f"it is longer than {MOST_CHARACTERS:,} characters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the model's strings: not our reader's concern
            ast.parse(source)
    except SyntaxError as error:
        lines = source.split("\n")
        if error.lineno is None or not 0 < error.lineno <= len(lines):
            return str(error.msg)[:300]
        return f"{str(error.msg)[:300]} in line {error.lineno}: {lines[error.lineno - 1].strip()[:200]!r}"
    except ValueError as error:
        return str(error)[:300]
    except (RecursionError, MemoryError):
        return "it is nested too deeply"
    return ""


def is_whole(text: str) -> bool:
    """Tell whether a reply holds a module that parses and defines the whole protocol."""
    found = find_module(text)
    return found.kind == "module" and _defined(found.source) == len(FUNCTIONS)


def _is_protocol(source: str) -> bool:
    return _defined(source) == len(FUNCTIONS) and parses(source)


def _spoken(text: str) -> str:
    """Return what was said aloud."""
    spoken = text.replace("\r\n", "\n")
    for mark in ("think", "thinking"):
        spoken, _ = cut_out(spoken, f"<{mark}>", f"</{mark}>")
    return spoken.strip()


def joined(before: str, after: str) -> str:
    r"""Return a reply that was cut off together with what followed.

    What the second part repeats of the first one's end, or of its fence, is there once; a second part that
    begins the module anew replaces the first.

    >>> joined("```python\nx = 1\ny = ", "```python\n2\n```")
    '```python\nx = 1\ny = 2\n```'
    """
    begun = find_module(before).source[:_BEGINNING]
    if len(begun) > 10 and begun in after:
        return after  # it began anew
    if before.count("```") % 2:
        after = re.sub(r"\A\s*```[\w+.-]*[ \t]*\n", "", after)
    plain = before + after
    for size in range(min(len(before), len(after), 2000), _OVERLAP, -1):
        if before.endswith(after[:size]) and len("".join(after[:size].split())) > _OVERLAP:
            once = before + after[size:]
            # Code repeats itself too, and then nothing may be left out.
            return plain if parses(find_module(plain).source) else once
    return plain


def whole_lines(text: str) -> str:
    r"""Return a reply without the line in which it was cut off: it is asked for again, from its beginning.

    >>> whole_lines("x = 1\ny = [1, ")
    'x = 1\n'
    """
    kept = text[: text.rfind("\n") + 1]
    return kept if kept.strip() else text


def _without(spoken: str, cut: bool) -> ReplyKind:
    if not spoken:
        return "cut" if cut else "empty"
    if _REFUSAL.search(spoken[:2000]):
        return "refusal"
    return "cut" if cut else "no_code"


def _candidates(text: str) -> Iterator[str]:
    """Yield every text that might be the module."""
    fenced = _fenced(text)
    yield from fenced
    if len(fenced) > 1 and max(map(_defined, fenced)) < len(FUNCTIONS):
        yield "\n\n".join(fenced)
    if not fenced:
        yield from _bare(text)


def _fenced(text: str) -> list[str]:
    """Return the contents of code fences; one that is never closed ends with the text."""
    blocks: list[str] = []
    place = 0
    while opening := _FENCE.search(text, place):
        mark = opening.group(1)
        closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
        end = closing.search(text, opening.end())
        stop = end.start() if end else len(text)
        if opening.group(2).lower() in ("", "python", "py", "python3"):
            blocks.append(text[opening.end() : stop])
        place = end.end() if end else len(text)
    return blocks


def _bare(text: str) -> Iterator[str]:
    """Yield code that stands among words without a fence: from a line that looks like code to the end."""
    start = _CODE_LINE.search(text)
    if start is None:
        return
    lines = text[start.start() :].split("\n")
    yield "\n".join(lines)
    for count in range(1, min(_TRIMS, len(lines))):
        shorter = "\n".join(lines[:-count])
        if parses(shorter):
            yield shorter
            return


def _worth(source: str) -> tuple[int, bool, int]:
    return _defined(source), parses(source), len(source)


def _defined(source: str) -> int:
    """Return how many functions of the protocol a text defines, as far as its lines show."""
    found = re.findall(r"^(?:async )?def (\w+)\(", source, re.MULTILINE)
    return len(set(found) & set(FUNCTIONS))


def _looks_like_code(source: str) -> bool:
    if _defined(source):
        return True
    kinds = (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.ClassDef, ast.Assign)
    return parses(source) and any(isinstance(node, kinds) for node in ast.parse(source).body)


# Asks a model for one module: free text, halves put together, every finished reply remembered.


MOST_PARTS = 4
"""A reply that the server cuts off is continued so often, the first part included."""


class Reply(Answer):
    """All that a model said to one question.

    Bad replies are kept like good ones: what becomes of them is decided by the audit, and a re-run must
    come to the same end without a request.
    """

    text: str
    cut: bool = False
    """It still ended at the limit of length after `MOST_PARTS` parts."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def found(self) -> Found:
        """The module in it."""
        return find_module(self.text, cut=self.cut)


@dataclass(frozen=True)
class ModuleQuestion(Question[Reply]):
    """A request for a module, as free text: code inside JSON strings is where models err most."""

    kind: Literal["write", "mend"]  # type: ignore[assignment]  # kinds of this room, not of the analyst

    @property
    def response_format(self) -> dict[str, Any]:
        """No schema."""
        return {}


class ModuleServer(ModelServer):
    """The analyst's server (retries, memory, account, cap) with another idea of what an answer is."""

    setting = "writer.base_url"

    async def _rounds(self, question: Question[A]) -> A:
        """Ask once, and on until the reply is no longer cut off."""
        before = self.account.spent.prompt_tokens, self.account.spent.completion_tokens
        text, cut, messages = "", False, question.messages
        for _ in range(MOST_PARTS):
            spoken = await self._complete(question, messages)
            text, cut = joined(text, spoken.text) if text else spoken.text, spoken.cut
            if not cut or not spoken.text.strip() or is_whole(text):
                break
            self.account.faults["cut"] += 1
            text = whole_lines(text)
            messages = [
                *question.messages,
                {"role": "assistant", "content": text},
                {"role": "user", "content": render("continue.md", ending=text[-200:])},
            ]
        spent = self.account.spent
        return question.schema.model_validate(
            {
                "text": text,
                "cut": cut and not is_whole(text),
                "prompt_tokens": spent.prompt_tokens - before[0],
                "completion_tokens": spent.completion_tokens - before[1],
            }
        )


# Changes to a module as a model writes them: search and replace, applied strictly or not at all.


_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")
_LONGEST_LINE = 120
"""Characters of a line that are quoted in a complaint."""
_MOST_COMPARED = 200
"""Lines of a search that are compared to say where it goes wrong."""


class PatchError(ValueError):
    """A change that cannot be applied; says which, and why."""


@dataclass(frozen=True)
class Change:
    """Lines that stand in the module, and those that take their place.

    Attributes:
        search: Whole lines, each ending in a line break.
        replace: Likewise; empty to leave them out.
    """

    search: str
    replace: str


def changes_in(text: str) -> list[Change]:
    r"""Return the changes in a reply, in order; words and fences around them are passed over.

    Raises:
        PatchError: One is not finished, or names nothing to look for.

    >>> changes_in("Sure.\n<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n")
    [Change(search='a = 1\n', replace='a = 2\n')]
    """
    found: list[Change] = []
    parts: list[list[str]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        number = len(found) + 1
        if _SEARCH.fullmatch(line):
            if parts:
                raise PatchError(f"change {number} is not finished: another one begins inside it")
            parts = [[]]
        elif len(parts) == 1 and _MIDDLE.fullmatch(line):
            parts.append([])
        elif len(parts) == 2 and _REPLACE.fullmatch(line):
            search, replace = ("".join(f"{one}\n" for one in part) for part in parts)
            if not search.strip():
                raise PatchError(f"change {number} has no lines to search for")
            found.append(Change(search, replace))
            parts = []
        elif parts:
            parts[-1].append(line)
    if parts:
        missing = "=======" if len(parts) == 1 else ">>>>>>> REPLACE"
        raise PatchError(f"change {len(found) + 1} is not finished: its line {missing} is missing")
    return found


def patched(source: str, changes: list[Change]) -> str:
    r"""Return a module with changes made to it: all of them, or none.

    Every search is looked for in the module as it was, so that no change depends on another.

    Raises:
        PatchError: Lines that do not stand in the module, that stand there more than once, or that two
            changes share.

    >>> patched("a = 1\nb = 1\n", [Change("b = 1\n", "b = 2\n"), Change("a = 1\n", "")])
    'b = 2\n'
    """
    whole = "\n" + (source if source.endswith("\n") else f"{source}\n")
    spans: list[tuple[int, int, int, str]] = []
    for number, change in enumerate(changes, start=1):
        # Whole lines only: the break before the first one belongs to what is looked for.
        at = whole.find("\n" + change.search)
        if at < 0:
            raise PatchError(f"change {number} does not apply: {_where_it_differs(source, change.search)}")
        again = whole.find("\n" + change.search, at + 1)
        if again >= 0:
            first, second = (whole.count("\n", 0, one) + 1 for one in (at, again))
            raise PatchError(
                f"change {number} does not apply: its lines stand at line {first} and at line {second}; "
                "search for more lines, so that they stand once"
            )
        spans.append((at + 1, at + 1 + len(change.search), number, change.replace))
    spans.sort()
    parts, end, before = [], 1, 0
    for start, stop, number, replace in spans:
        if start < end:
            raise PatchError(f"changes {before} and {number} change the same lines")
        parts += [whole[end:start], replace]
        end, before = stop, number
    return "".join([*parts, whole[end:]])


def _where_it_differs(source: str, search: str) -> str:
    """Say which line of a search does not stand in the module, from the place that agrees longest."""
    lines = source.split("\n")
    wanted = search.split("\n")[:-1][:_MOST_COMPARED]
    agreed, place = 0, 0
    for start in range(len(lines)):
        count = 0
        while count < len(wanted) and start + count < len(lines) and lines[start + count] == wanted[count]:
            count += 1
        if count > agreed:
            agreed, place = count, start
    if not agreed:
        return f"its first line, {_quoted(wanted[0])}, does not stand in the module"
    if agreed == len(wanted):
        return f"it agrees with the module from line {place + 1} on, but not to its end"
    after = place + agreed
    there = _quoted(lines[after]) if after < len(lines) else "its end"
    return f"where it says {_quoted(wanted[agreed])}, line {after + 1} of the module is {there}"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " [...]")
