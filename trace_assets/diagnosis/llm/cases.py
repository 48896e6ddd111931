"""Cases: proposals of the size of one rule, one step or one kind of fact, each resting on what is looked up.

A proposal that is asked to be as general as its cause comes back as a habit ("check every condition"), which
fits nearly every failure and teaches nothing. A case names what it rests on, a sentence of the policy or a
tool's argument, in a field of its own, and is none where that is not there. The policy's own rules are cases
before any episode is read: the rules are what one batch of failures has in common with the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from trace_assets.diagnosis.llm.json_reply import id_of, within
from trace_assets.diagnosis.llm.request import Answer, Context, Question, render
from trace_assets.records import ActionDiff, Trajectory
from trace_assets.settings import Discovery

MOST_CASES = 8
"""New cases that one pass may write."""
MOST_RULES = 21
"""Cases that the policy and the tools alone may give."""
LONGEST_NAME = 120
LONGEST_PART = 600
SHORTEST_QUOTE = 8
"""Characters of a quotation, or of a part between dots: less stands in any policy."""


class Rule(Answer):
    """One case as the policy alone gives it."""

    name: str
    when: str
    rule: str
    tool: str
    argument: str
    should: str
    instead: str


class OneCase(Rule):
    """One case of what decided failed episodes."""

    transcripts: list[str]


class Again(Answer):
    """A known case that decided failed episodes."""

    id: str
    transcripts: list[str]


class CaseAnswer(Answer):
    """What one pass finds."""

    cases: list[OneCase]
    known: list[Again]


C = TypeVar("C", bound=Rule)


class RuleAnswer(Answer):
    """The cases of a policy."""

    cases: list[Rule]


@dataclass(frozen=True)
class Grounds:
    """What cases may rest on.

    Attributes:
        policy: The rules that the agent was given; empty where they are not known.
        tools: Arguments by tool: of the tools it was given, and of the calls that episodes show.
        expected: Arguments by tool of calls that were expected and that no episode may show: that nothing was
            done is no reason to take a tool for none.
    """

    policy: str = ""
    tools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    expected: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @staticmethod
    def of(context: Context, trajectories: Sequence[Trajectory]) -> Grounds:
        """Return what the cases of some episodes may rest on."""
        tools: dict[str, set[str]] = {}
        for tool in context.tools:
            properties = tool.parameters.get("properties")
            tools.setdefault(tool.name, set()).update(properties if isinstance(properties, dict) else ())
        for one in trajectories:
            for message in one.messages:
                for call in message.tool_calls:
                    if message.role == "assistant":
                        tools.setdefault(call.name, set()).update(call.arguments)
        return Grounds(context.policy, {name: frozenset(own) for name, own in tools.items()})

    def with_expected(self, diffs: Iterable[Sequence[ActionDiff]]) -> Grounds:
        """Return the same with the calls that were expected of the episodes and not made."""
        tools: dict[str, set[str]] = {}
        for one in (row for rows in diffs for row in rows if row.kind != "surplus"):
            tools.setdefault(one.tool, set()).update(one.expected_arguments)
        return replace(self, expected={name: frozenset(own) for name, own in tools.items()})

    def lines(self, context: Context, *, with_expected: bool = False) -> list[str]:
        """Return the tools that are known from calls alone, for who is to name them, in a line each.

        Args:
            context: What the agent was given.
            with_expected: Those too that only were to be called.
        """
        given = {tool.name for tool in context.tools}
        seen = {name: own for name, own in self.tools.items() if name not in given}
        lines = _tool_lines("Tools that its episodes call:", seen)
        if with_expected:
            never = {name: own for name, own in self.expected.items() if name not in self.tools}
            lines += _tool_lines("Tools that were to be called and that no episode calls:", never)
        return lines

    def complaints(self, one: Rule) -> list[str]:
        """Say what a case rests on that is not there, or that it rests on nothing."""
        found = []
        known = one.tool in self.tools or one.tool in self.expected
        arguments = self.tools.get(one.tool, frozenset()) | self.expected.get(one.tool, frozenset())
        if one.rule and not quoted(one.rule, self.policy):
            found.append("`rule` is no quotation: these words do not stand in the policy in this order")
        if one.tool and not known:
            found.append(f"there is no tool `{one.tool}`")
        if one.argument and one.argument not in arguments and known:
            found.append(f"`{one.tool}` has no argument `{one.argument}`")
        if not one.rule and not one.tool:
            found.append("it rests on nothing: quote the rule, or name the tool")
        return found


def _tool_lines(heading: str, tools: Mapping[str, Collection[str]]) -> list[str]:
    listed = [f"- {name}({', '.join(sorted(own))})" for name, own in sorted(tools.items())]
    return [heading, *listed, ""] if listed else []


def quoted(words: str, policy: str) -> bool:
    """Tell whether words stand in a policy, whatever their spaces, marks and case, dots for what is left out.

    >>> policy = "- **Refunds**: only within 30 days, and to the card."
    >>> [quoted(one, policy) for one in ("refunds: only within", "Only within ... to the card", "30 days")]
    [True, True, False]
    >>> quoted("to the card, and only within 30 days", policy)
    False
    """
    text, at = _words(policy), 0
    parts = [_words(one) for one in re.split(r"\.{3,}|\[?\u2026\]?", words)]
    parts = [one for one in parts if one]
    for one in parts:
        place = text.find(one, at)
        if place < 0 or len(one) < SHORTEST_QUOTE:
            return False
        at = place + len(one)
    return bool(parts)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def described(one: Rule) -> str:
    """Return a case in the words of a capability: when it arises, what is right, what is wrong, and why."""
    grounds = [f'the rule "{one.rule}"'] if one.rule else []
    if one.tool:
        grounds.append(f"the tool {one.tool}" + (f" (argument {one.argument})" if one.argument else ""))
    parts = [
        f"Needed only in this situation: {_sentence(one.when)}",
        f"Exercised: {_sentence(one.should)}",
        f"Lacking: {_sentence(one.instead)}",
        f"It rests on {' and '.join(grounds)}.",
    ]
    return " ".join(parts)


def grounds_of(one: Rule) -> dict[str, str]:
    """Return what a case rests on, as it is stored."""
    given = {"rule": one.rule, "tool": one.tool, "argument": one.argument if one.tool else ""}
    return {name: said for name, said in given.items() if said}


def _sentence(text: str) -> str:
    plain = " ".join(text.split())
    return plain if plain.endswith((".", "!", "?")) else f"{plain}."


def rules_question(section: Discovery, context: Context, grounds: Grounds) -> Question[RuleAnswer]:
    """Return the question which cases a policy holds, whatever was done under it."""
    return Question(
        kind="discover",
        model=section.model,
        system=render("rules.md", context=context.text, most=MOST_RULES),
        user="\n".join([*grounds.lines(context), "Write down the cases."]),
        schema=RuleAnswer,
        temperature=0.0,
        examine=lambda answer: _listed(_problems(one, grounds) for one in answer.cases),
        mend=lambda answer: RuleAnswer(cases=_distinct([_tidy(one) for one in answer.cases])[:MOST_RULES]),
        rest=lambda answer: RuleAnswer(cases=[one for one in answer.cases if not _problems(one, grounds)]),
    )


def cases_question(
    section: Discovery,
    context: Context,
    transcripts: Sequence[Mapping[str, object]],
    known: Mapping[str, Rule],
    grounds: Grounds,
    number: int,
) -> Question[CaseAnswer]:
    """Return the question of one pass.

    Args:
        section: Model and temperature.
        context: What the agent knew.
        transcripts: As `discover_batch.md` shows them.
        known: Cases of the policy, by their id in the question.
        grounds: What cases may rest on.
        number: The pass.
    """
    lines = [
        json.dumps({"id": name, **one.model_dump(exclude={"argument", "transcripts"})}, ensure_ascii=False)
        for name, one in known.items()
    ]
    names = {key: one.name for key, one in known.items()}
    system = render("cases.md", most=MOST_CASES, context=context.text, has_user=context.has_user)
    user = render("cases_batch.md", known=lines, transcripts=transcripts)
    return about_cases(section, system, user, transcripts, names, grounds, number)


def about_cases(
    section: Discovery,
    system: str,
    user: str,
    transcripts: Sequence[Mapping[str, object]],
    known: Mapping[str, str],
    grounds: Grounds,
    number: int,
) -> Question[CaseAnswer]:
    """Return a question that is answered by cases of failed episodes.

    Args:
        section: Model and temperature.
        system: What is asked for.
        user: What it is asked about.
        transcripts: As they are shown, for their ids.
        known: Names of the known cases, by their id in the question.
        grounds: What cases may rest on.
        number: The pass.
    """
    failed = {str(one["id"]): "" for one in transcripts if not one["passed"]}
    return Question(
        kind="discover",
        model=section.model,
        system=system,
        user=user,
        schema=CaseAnswer,
        temperature=section.temperature,
        seed=number,
        examine=lambda answer: _listed(_problems(one, grounds, failed) for one in answer.cases),
        mend=lambda answer: _mended(answer, failed, known),
        rest=lambda answer: CaseAnswer(
            cases=[one for one in answer.cases if not _problems(one, grounds, failed)], known=answer.known
        ),
    )


def _mended(answer: CaseAnswer, failed: Mapping[str, str], known: Mapping[str, str]) -> CaseAnswer:
    """Return cases with ids as they were given, of equal names the first, and the known ones that exist."""

    def ids(said: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(found for one in said if (found := id_of(one, failed))))

    cases = [_tidy(one).model_copy(update={"transcripts": ids(one.transcripts)}) for one in answer.cases]
    again = [Again(id=id_of(one.id, known), transcripts=ids(one.transcripts)) for one in answer.known]
    return CaseAnswer(
        cases=_distinct(cases)[:MOST_CASES],
        known=[one for one in again if one.id and one.transcripts],
    )


def _tidy(one: C) -> C:
    cut = {name: within(getattr(one, name), LONGEST_PART) for name in ("when", "should", "instead")}
    rule = one.rule.strip().strip("\"'\u201c\u201d").strip()
    plain = {"rule": "" if rule.lower() in _NOTHING else " ".join(rule.split())}
    for name in ("tool", "argument"):
        said = getattr(one, name).strip().strip("`").removesuffix("()")
        plain[name] = "" if said.lower() in _NOTHING else said
    return one.model_copy(update={"name": within(one.name, LONGEST_NAME), **cut, **plain})


_NOTHING = frozenset({"", "empty", "none", "null", "n/a", "-"})


def _distinct(cases: Sequence[C]) -> list[C]:
    kept: dict[str, C] = {}
    for one in cases:
        kept.setdefault(_words(one.name), one)
    return list(kept.values())


def _problems(one: Rule, grounds: Grounds, failed: Mapping[str, str] | None = None) -> list[str]:
    found = [f"`{name}` is empty" for name in ("when", "should", "instead") if len(getattr(one, name)) < 10]
    if len(one.name) < 3:
        found.append(f"the name must have 3 to {LONGEST_NAME} characters")
    if failed is not None and isinstance(one, OneCase) and not one.transcripts:
        found.append(f"'transcripts' must name failed episodes ({', '.join(failed)})")
    return found + grounds.complaints(one)


def _listed(problems: Iterable[Sequence[str]]) -> list[str]:
    return [f"case {number}: {words}" for number, own in enumerate(problems, 1) for words in own]
