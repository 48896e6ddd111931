"""Something was seen that calls for a step, and the step was not taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.verbs import deed, spoken
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, imperative, last_name, title
from trace_assets.stats.tests import at_least

Fact = tuple[str, str, str]
"""Tool that showed it and field (both empty for text), value."""
MIN_USES = 5
"""Tasks in which it must have been seen."""
MAX_VALUES = 8
"""A field with more values than this is not a state."""
FOLLOWS = 0.6
"""Share of the tasks in which it was seen that must take the step afterwards, whatever the outcome."""
CUE_CHANCE = 0.01
"""Chance, over all words, that one of the user's goes so well with the step, below which it is its cue."""
LIFT = 0.3
"""By how much that must exceed the share of the other tasks that take the step."""


_WORD = re.compile(r"[a-z]+")
_FILLERS = frozenset(
    {"mode", "setting", "settings", "preference", "status", "the", "to", "for", "of", "item"}
)
_ON = frozenset({"on", "yes", "true", "enabled", "active", "connected"})
_OFF = frozenset({"off", "no", "not", "false", "disabled", "inactive", "disconnected"})
_BETWEEN = frozenset({"is", "are", "was", "now", "currently", "turned", "switched", "mode", "has", "been"})
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
    verb, words = deed(tool).split()[0], _words(seen)
    on, off = not _ON.isdisjoint(words), not _OFF.isdisjoint(words)
    return not (verb in _SWITCHES_ON and on and not off) and not (verb in _SWITCHES_OFF and off)


def speaks_of(tool: str, line: str) -> bool:
    """Tell whether a line names all that a tool acts on.

    >>> speaks_of("toggle_roaming", "Data Roaming Enabled: Yes"), speaks_of("toggle_roaming", "Wi-Fi: on")
    (True, False)
    """
    things = [word for word in deed(tool).split()[1:] if word not in _FILLERS]
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


def told_state(tool: str, line: str) -> str:
    """Return the state, `on` or `off`, that a line says what a tool acts on is in; else nothing.

    The thing must stand right before its state: `data roaming enabled` speaks of roaming, not of data.

    >>> [told_state(tool, "Data Roaming Enabled: No") for tool in ("toggle_roaming", "toggle_data")]
    ['off', '']
    >>> told_state("toggle_data", "Mobile Data is now ON.")
    'on'
    """
    things = [word for word in deed(tool).split()[1:] if word not in _FILLERS]
    words = [word for word in _words(line) if word not in _BETWEEN]
    for place, word in enumerate(words):
        if word in _ON | _OFF and place and things and words[place - 1][:4] == things[-1][:4]:
            return state_of(line)
    return ""


def _words(text: str) -> list[str]:
    return _WORD.findall(spoken(text).replace("wi-fi", "wifi").replace("wi fi", "wifi"))


def _cue(seen: set[str], after: set[str], said: Mapping[str, set[str]]) -> str:
    """Return the word of the user's with which a sight mostly calls for a step, and without which seldom.

    Such as a setting that only matters abroad. Of several the one that most of the steps go with.

    >>> seen, after = set("abcdefghijklmnop"), set("abcdefgh")
    >>> _cue(seen, after, {"abroad": set("abcdefghi"), "phone": seen}), _cue(seen, after, {"phone": seen})
    ('abroad', '')
    """
    best: tuple[int, float, str] | None = None
    for word, tasks in said.items():
        with_it = seen & tasks
        if len(with_it) < MIN_USES or len(seen) - len(with_it) < MIN_USES - 1:
            continue
        took, rest = len(after & with_it), len(seen) - len(with_it)
        share, without = took / len(with_it), len(after - tasks) / rest
        chance = len(said) * at_least(took, len(with_it), len(after - tasks), rest)
        found = (took, share, word)
        if share >= max(FOLLOWS, without + LIFT) and chance <= CUE_CHANCE and (best is None or found > best):
            best = found
    return best[2] if best else ""


class UnansweredState:
    """A result showed field = value (or said a line of text), and a certain step did not follow.

    The sight must be of what the step is about (`calls_for`). Relevant when it was seen. Where the
    thing is shown as the step would make it at the end, nothing is lacking. Arguments: `read` (the tool that
    showed it) and `field`, both empty for a line of text, `value`, `tool` (the step), `goal` (what it makes
    of its thing, `on` or `off`; empty where that is not known), `word`
    (of the user's that it takes as well; empty for none).
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
        said = self._said(corpus)
        for (fact, tool), after in sorted(followed.items()):
            seen = saw[fact]
            if len(seen) < MIN_USES or fact[0] == tool or (fact[1] and len(values[fact[:2]]) > MAX_VALUES):
                continue
            rest = tasks - len(seen)
            elsewhere = len(took[tool] - seen) / rest if rest else 1.0
            if not calls_for(tool, f"{fact[1]} {fact[2]}"):
                continue
            share = len(after) / len(seen)
            if share >= max(FOLLOWS, elsewhere + LIFT):
                proposals.append(self._proposal(fact, tool, self._goal(corpus, tool)))
                continue
            goal, state = self._goal(corpus, tool), state_of(f"{fact[1]} {fact[2]}")
            if goal and state and state != goal and (word := _cue(seen, after, said)):
                proposals.append(self._proposal(fact, tool, goal, word))
        return proposals

    def _said(self, corpus: Corpus) -> dict[str, set[str]]:
        """Return by word the tasks in which the user said it; words that ask for nothing are left out."""
        found: dict[str, set[str]] = {}
        for one in corpus.transcripts:
            for word in one.words.keys() - STOP_WORDS:
                found.setdefault(word, set()).add(one.task_id)
        return found

    def _goal(self, corpus: Corpus, tool: str) -> str:
        """Return what a step makes of its thing, `on` or `off`, by what it mostly reports; else nothing."""
        said = Counter(
            state_of(step.result) for one in corpus.transcripts for step in one.calls(tool, ok=True)
        )
        most = max(said, key=lambda state: (said[state], state), default="")
        return most if 2 * said[most] > sum(said.values()) else ""

    def _proposal(self, fact: Fact, tool: str, goal: str, word: str = "") -> Proposal:
        read, field, value = fact
        seen = f"{spoken(field)} '{value}'" if field else f"'{value}'"
        seen += f" where '{word}' was said" if word else ""
        where = f"'{spoken(read)}'" if read else "a result"
        return Proposal(
            args={"read": read, "field": field, "value": value, "tool": tool, "goal": goal, "word": word},
            name=f"{title(imperative(tool))} after seeing {seen}",
            description=(
                f"When {where} shows {seen}, go on to '{spoken(tool)}' "
                "(or have it done) before the conversation ends."
            ),
            subject=tuple(part for part in (tool, field, value, word) if part),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        seen = transcript.facts.get((args["read"], args["field"], args["value"]))
        if seen is None or (args.get("word") and args["word"] not in transcript.words):
            return NOT_NEEDED
        after = [step.index for step in transcript.calls(args["tool"]) if step.index > seen]
        if after:
            return present(f"{args['tool']} followed", seen, after[0])
        if args.get("goal") and self._is_so(transcript, args):
            return NOT_NEEDED
        return lacking(f"{args['tool']} did not follow", seen, transcript.last_of_agent())

    def _is_so(self, transcript: Transcript, args: Mapping[str, Any]) -> bool:
        """Tell whether the last line of plain text on the thing's state shows it as the step makes it."""
        last = ""
        for step in transcript.steps:
            if step.failed or step.answer is None or step.result.lstrip().startswith("{"):
                continue
            for line in re.split(r"[\n|]", step.result[:2000]):
                if line.strip() != args["value"]:
                    last = told_state(str(args["tool"]), line) or last
        return bool(last == args["goal"])


# A limit that was reached, and nothing done about it.


_USED = re.compile(r"(?:^|_)(?:used|usage|spent|consumed)(?:_|$)")
_LIMIT = re.compile(r"(?:^|_)(?:limit|quota|maximum|max|allowance|cap)(?:_|$)")


class LimitExceeded:
    """A record shows more used than the record that it points to allows, and the remedy was not taken.

    The remedy is the writing tool after which a third field of the record is named, which adds to the limit
    (`data_refueling_gb`, `refuel_data`). The limit need not have been looked up in this run: it is known
    from others, and not looking is the commonest way of missing it. Relevant when the limit is reached.
    Arguments: `used`, `more` (fields), `link` (the field that names the record with the limit), `limits`
    (that record to its limit), `tool`.
    """

    name = "limit_exceeded"
    norm = 0.6
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every pair of fields about one thing, joined by an identifier, that has a remedy."""
        limits: dict[str, dict[str, float]] = {}
        records: dict[tuple[str, str, str], set[str]] = {}
        for one in corpus.transcripts:
            for name, seen in one.observations.items():
                for observation in seen:
                    fields = observation.fields
                    for field, value in fields.items():
                        if _LIMIT.search(last_name(field)) and (number := _number(value)) is not None:
                            limits.setdefault(field, {})[name] = number
                        elif _USED.search(last_name(field)) and _number(value) is not None:
                            links = {link: normal(at) for link, at in fields.items() if looks_like_id(at)}
                            for more in (name for name in fields if _number(fields[name]) is not None):
                                for link, at in links.items():
                                    records.setdefault((field, more, link), set()).add(at)
        proposals: dict[tuple[str, ...], Proposal] = {}
        for (used, more, link), others in sorted(records.items()):
            tool = next((one for one in sorted(corpus.mutating) if _adds(one, more) and more != used), None)
            for field, known in sorted(limits.items()):
                joined = {name: known[name] for name in sorted(others & known.keys())}
                if (
                    tool is None
                    or not joined
                    or not _same_thing(used, field)
                    or not last_name(link).endswith("id")
                ):
                    continue
                if field in (used, more):
                    continue
                proposals.setdefault((used, link, tool), self._proposal(used, more, link, joined, tool))
        return list(proposals.values())

    def _proposal(self, used: str, more: str, link: str, limits: dict[str, float], tool: str) -> Proposal:
        return Proposal(
            args={"used": used, "more": more, "link": link, "limits": limits, "tool": tool},
            name=f"Compare {spoken(used)} with the limit, and {imperative(tool)} when it is reached",
            description=(
                f"Look up the limit of '{spoken(link)}' and compare it with '{spoken(used)}'; when "
                f"it is reached, '{spoken(tool)}' (or offer it) before ending or handing over."
            ),
            subject=(used, link, tool),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        for name, seen in transcript.observations.items():
            if not any(name in step.objects and not step.by_user for step in transcript.steps):
                continue
            for observation in seen:
                used = _number(observation.fields.get(args["used"], ""))
                more = _number(observation.fields.get(args["more"], "")) or 0.0
                limit = args["limits"].get(normal(observation.fields.get(args["link"], "")))
                if used is None or limit is None or used < limit + more:
                    continue
                done = [step.index for step in transcript.calls(args["tool"], ok=True)]
                if done:
                    return present(f"{used:g} of {limit + more:g} was used, then {args['tool']}", done[-1])
                return lacking(
                    f"{used:g} of {limit + more:g} was used, and {args['tool']} was not called",
                    observation.index,
                    transcript.last_of_agent(),
                )
        return NOT_NEEDED


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _adds(tool: str, field: str) -> bool:
    """Tell whether a field is named after a tool's verb and what it acts on.

    >>> _adds("refuel_data", "data_refueling_gb"), _adds("refillInk", "printer.inkRefilled")
    (True, True)
    >>> _adds("refuel_data", "data_used_gb")
    False
    """
    verb, *rest = deed(tool).split()
    parts = last_name(field).split("_")
    return any(part.startswith(verb) for part in parts) and any(word in parts for word in rest)


def _same_thing(used: str, limit: str) -> bool:
    """Tell whether two fields are about one thing in one unit: all their other words are the same."""
    one, other = (
        set(re.sub(pattern, "_", name).split("_")) - {""}
        for pattern, name in ((_USED, last_name(used)), (_LIMIT, last_name(limit)))
    )
    return bool(one) and one == other
