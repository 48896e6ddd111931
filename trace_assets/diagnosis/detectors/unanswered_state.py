"""Something was seen that calls for a step, and the step was not taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import imperative, spoken, title

Fact = tuple[str, str, str]
"""Tool that showed it and field (both empty for text), value."""
MIN_USES = 5
"""Tasks in which it must have been seen."""
MAX_VALUES = 8
"""A field with more values than this is not a state."""
FOLLOWS, FOLLOWS_TOLD = 0.6, 0.4
"""Share of the tasks in which it was seen that must take the step afterwards, whatever the outcome; the
second where the policy names the step as a tool: then it need not be what most runs do."""
LIFT = 0.3
"""By how much that must exceed the share of the other tasks that take the step."""


_WORD = re.compile(r"[a-z]+")
_FILLERS = frozenset(
    {"mode", "setting", "settings", "preference", "status", "the", "to", "for", "of", "item"}
)
_ON = frozenset({"on", "yes", "true", "enabled", "active", "connected"})
_OFF = frozenset({"off", "no", "not", "false", "disabled", "inactive", "disconnected"})
_SWITCHES_ON = frozenset({"enable", "activate", "connect", "grant"})
_SWITCHES_OFF = frozenset({"disable", "deactivate", "disconnect", "revoke"})


def calls_for(tool: str, seen: str) -> bool:
    """Tell whether what was seen is about what a tool acts on, and not already as the tool would make it.

    That a step often follows a sight is no obligation: the sight has to be of the same thing. Handing over
    has no object: anything may call for it.

    >>> calls_for("toggle_data_saver_mode", "Data Saver is ON"), calls_for("toggle_roaming", "VPN connected")
    (True, False)
    >>> calls_for("enable_roaming", "roaming_enabled true"), calls_for("enable_roaming", "roaming: off")
    (False, True)
    """
    if hands_over(tool):
        return True
    if not speaks_of(tool, seen):
        return False
    verb, words = spoken(tool).split()[0], _words(seen)
    on, off = not _ON.isdisjoint(words), not _OFF.isdisjoint(words)
    return not (verb in _SWITCHES_ON and on and not off) and not (verb in _SWITCHES_OFF and off)


def speaks_of(tool: str, line: str) -> bool:
    """Tell whether a line names all that a tool acts on.

    >>> speaks_of("toggle_roaming", "Data Roaming Enabled: Yes"), speaks_of("toggle_roaming", "Wi-Fi: on")
    (True, False)
    """
    things = [word for word in spoken(tool).split()[1:] if word not in _FILLERS]
    words = _words(line)
    return bool(things) and all(any(word[:4] == thing[:4] for word in words) for thing in things)


def state_of(line: str) -> str:
    """Return whether a line says `on` or `off`; empty where it says neither, or both.

    >>> state_of("Data Roaming Enabled: No"), state_of("Roaming is now ON."), state_of("Roaming")
    ('off', 'on', '')
    """
    words = set(_words(line))
    if words & _OFF:
        return "off"
    return "on" if words & _ON else ""


def _words(text: str) -> list[str]:
    return _WORD.findall(spoken(text).replace("wi-fi", "wifi").replace("wi fi", "wifi"))


class UnansweredState:
    """A result showed field = value (or said a line of text), and a certain step did not follow.

    The sight must be of what the step is about (`calls_for`). Relevant when it was seen. Where other
    lines show the thing as the step would make it, nothing is lacking. Arguments: `read` (the tool that
    showed it) and `field`, both empty for a line of text, `value`, `tool` (the step), `goal` (what it makes
    of its thing, `on` or `off`; empty where that is not known).
    """

    name = "unanswered_state"
    norm = 0.75
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair what results show with the writing tools that mostly follow and seldom come otherwise."""
        tasks = len({one.task_id for one in corpus.transcripts})
        saw: dict[Fact, set[str]] = {}
        followed: dict[tuple[Fact, str], set[str]] = {}
        took: dict[str, set[str]] = {}
        values: dict[tuple[str, str], set[str]] = {}
        for one in corpus.transcripts:
            ends = {tool: steps[-1].index for tool, steps in one.by_tool.items() if tool in corpus.mutating}
            for tool in ends:
                took.setdefault(tool, set()).add(one.task_id)
            for fact, at in one.facts.items():
                saw.setdefault(fact, set()).add(one.task_id)
                values.setdefault(fact[:2], set()).add(fact[2])
                for tool, end in ends.items():
                    if end > at:
                        followed.setdefault((fact, tool), set()).add(one.task_id)
        proposals = []
        told = {
            tool
            for tool in took
            if not hands_over(tool) and re.search(rf"\b{re.escape(tool)}\(", corpus.policy.text)
        }
        for (fact, tool), after in sorted(followed.items()):
            seen = saw[fact]
            if len(seen) < MIN_USES or fact[0] == tool or (fact[1] and len(values[fact[:2]]) > MAX_VALUES):
                continue
            rest = tasks - len(seen)
            elsewhere = len(took[tool] - seen) / rest if rest else 1.0
            if not calls_for(tool, f"{fact[1]} {fact[2]}"):
                continue
            share = len(after) / len(seen)
            if share >= max(FOLLOWS_TOLD if tool in told else FOLLOWS, elsewhere + LIFT):
                proposals.append(self._proposal(fact, tool, self._goal(corpus, tool)))
        return proposals

    def _goal(self, corpus: Corpus, tool: str) -> str:
        """Return what a step makes of its thing, `on` or `off`, by what it mostly reports; else nothing."""
        said = Counter(
            state_of(step.result) for one in corpus.transcripts for step in one.calls(tool, ok=True)
        )
        most = max(said, key=lambda state: (said[state], state), default="")
        return most if 2 * said[most] > sum(said.values()) else ""

    def _proposal(self, fact: Fact, tool: str, goal: str) -> Proposal:
        read, field, value = fact
        seen = f"{spoken(field)} '{value}'" if field else f"'{value}'"
        where = f"'{spoken(read)}'" if read else "a result"
        return Proposal(
            args={"read": read, "field": field, "value": value, "tool": tool, "goal": goal},
            name=f"{title(imperative(tool))} after seeing {seen}",
            description=(
                f"When {where} shows {seen}, go on to '{spoken(tool)}' "
                "(or have it done) before the conversation ends."
            ),
            subject=(tool, field, value) if field else (tool, value),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        seen = transcript.facts.get((args["read"], args["field"], args["value"]))
        if seen is None:
            return NOT_NEEDED
        after = [step.index for step in transcript.calls(args["tool"]) if step.index > seen]
        if after:
            return present(f"{args['tool']} followed", seen, after[0])
        if args.get("goal") and self._is_so(transcript, args):
            return NOT_NEEDED
        return lacking(f"{args['tool']} did not follow", seen, transcript.last_of_agent())

    def _is_so(self, transcript: Transcript, args: Mapping[str, Any]) -> bool:
        """Tell whether other lines show the thing as the step would make it, and none otherwise."""
        shown = {
            state_of(line)
            for tool, field, line in transcript.facts
            if not tool and not field and line != args["value"] and speaks_of(str(args["tool"]), line)
        }
        return args["goal"] in shown and len(shown - {""}) == 1
