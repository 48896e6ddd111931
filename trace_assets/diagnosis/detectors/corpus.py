"""What the trajectories of one target teach about its tools, without looking at outcomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.identity import learn_pattern, looks_like_id, normal
from trace_assets.diagnosis.detectors.mutation import by_verb, hands_over, mutating_tools
from trace_assets.diagnosis.detectors.policy_text import read_policy
from trace_assets.diagnosis.detectors.shell import command_line, names_file, shows
from trace_assets.diagnosis.detectors.transcript import Observation, Transcript
from trace_assets.diagnosis.detectors.values import leaves, time_of
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, asks_for, named_after
from trace_assets.records import ToolSpec
from trace_assets.stats.intervals import wilson

ID_SHARE = 0.6
"""Share of an argument's values that must look like identifiers for it to name objects."""
CUE_BOUND = 0.4
"""Lower Wilson bound of P(tool is called, or the case handed over | word was said) for a word to be a cue."""
DIVIDED = 0.9
"""Share of the runs in which a word was said that must call the tool or hand the case over for the word to
ask for the tool although most of them do the latter."""
MAX_CUES = 8
_DONE = re.compile(r"(?:^|[._])(?:created|last|issued?|updated|ordered|placed|paid)(?:_|$)")
"""Fields that tell when something was done."""
SAME_PLACE = 0.9
"""Share of an argument's values that a field of results must have to show what else the argument may be."""
MIN_DEMANDING = 3
"""Tasks that must demand a tool that nobody calls, and say the word, for the word to ask for it."""
_IDENTIFIER = re.compile(r"(?<![\w.])[a-z]+(?:_[a-z0-9]+)+(?![\w.]*\w)")
"""What a policy writes as programs write names."""
MOSTLY = 0.8
"""Share of a tool's calls that must name a file for it to edit files."""
_EDITS = re.compile(r"\b(?:apply|change|create|edit|insert|modify|patch|replace|update|write)\b")
_TESTS = re.compile(r"\Atests?\b|\b(?:execute|run) (?:\w+ )*tests?\b")
MIN_SAID = 4
"""Tasks in which a word must have been said before the tool was called."""


MIN_SHAPED = 2
"""Calls that must be given a value of one shape for the shape to count."""
TOLD_SHARE = 0.8
"""Share of a tool's calls whose value the user must have said, and no other call have been given."""
MAX_SHAPES = 4
"""More shapes than these are no kind of thing."""
_PIECES = re.compile(r"[A-Z]+|[a-z]+|\d+|.")


def shape_of(value: str) -> str:
    r"""Return a regular expression for values that look like one; empty for dates, numbers and plain words.

    >>> shape_of("B12"), shape_of("555-0199"), shape_of("ann@a.test")
    ('[A-Z]+\\d+', '\\d+\\-\\d+', '[a-z]+@[a-z]+\\.[a-z]+')
    >>> shape_of("2030-01-31"), shape_of("12.5"), shape_of("well-known"), shape_of("17 Mill Street")
    ('', '', '', '')
    """
    plain = re.fullmatch(r"[-+$€£]?[\d.,:]+|(?=.*\s).*|[^\d@]*", value, re.DOTALL)
    if plain is not None or time_of(value) is not None:
        return ""
    kinds = (("[A-Z]+", str.isupper), ("[a-z]+", str.islower), (r"\d+", str.isdigit))
    return "".join(
        next((kind for kind, is_so in kinds if is_so(piece)), re.escape(piece))
        for piece in _PIECES.findall(value)
    )


class Corpus:
    """Transcripts of one target, and what can be learned from all of them together."""

    def __init__(
        self,
        transcripts: Sequence[Transcript],
        tools: Sequence[ToolSpec] = (),
        policy: str = "",
        demanded: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Take transcripts of one target, and what else is known of it.

        Args:
            transcripts: Blind ones.
            tools: Those that the agent had, where they are known.
            policy: What it was told to obey.
            demanded: By task, the names of the calls of its ground truth: for who proposes, never for labels.
        """
        self.transcripts = list(transcripts)
        self._demanded = demanded or {}
        self.policy = read_policy(policy)
        self._specs = tools
        self._cues: dict[str, list[str]] = {}

    @cached_property
    def tools(self) -> dict[str, int]:
        """Trajectories in which each tool was called, by anybody."""
        return dict(Counter(tool for one in self.transcripts for tool in one.by_tool))

    @cached_property
    def agent_tools(self) -> dict[str, int]:
        """Trajectories in which the agent called each tool."""
        return dict(
            Counter(
                tool
                for one in self.transcripts
                for tool, steps in one.by_tool.items()
                if any(not step.by_user for step in steps)
            )
        )

    @cached_property
    def unmade(self) -> frozenset[str]:
        """Tools that there are and that nobody calls: given ones, those the policy names, and demanded ones.

        What a policy writes like a tool may be a field: then it has no verb, or it is given to some call.
        """
        arguments = {name for one in self.transcripts for step in one.steps for name in step.given}
        named = set(_IDENTIFIER.findall(self.policy.text)) - arguments
        known = {spec.name for spec in self._specs} | {
            name for own in self._demanded.values() for name in own
        }
        known |= {name for name in named if by_verb(name) is not None}
        return frozenset(name for name in known - self.tools.keys() if not hands_over(name))

    @cached_property
    def unmade_writes(self) -> frozenset[str]:
        """Those of them that change something."""
        return mutating_tools((), self._specs, self.unmade) & self.unmade

    def demanding(self, tool: str) -> list[str]:
        """Return the user's words that ask for a tool which tasks demand and nobody calls.

        They are words of its own name, or forms of its verb, and mostly said in tasks that demand it.
        """
        tasks: dict[str, set[str]] = {}
        known = {one.task_id for one in self.transcripts} & self._demanded.keys()
        wanting = {task for task in known if tool in self._demanded[task]}
        for one in self.transcripts:
            for word in one.words if one.task_id in known else ():
                if word not in STOP_WORDS and (asks_for(tool, word) or self.own_words(tool, [word])):
                    tasks.setdefault(word, set()).add(one.task_id)
        good = {
            word: len(said & wanting)
            for word, said in tasks.items()
            if len(said & wanting) >= MIN_DEMANDING
            and wilson(len(said & wanting), len(said))[0] >= max(CUE_BOUND, len(wanting) / len(known))
        }
        return sorted(good, key=lambda word: (-good[word], word))[:MAX_CUES]

    @cached_property
    def mutating(self) -> frozenset[str]:
        """Tools whose calls change the environment's state."""
        return mutating_tools(self.transcripts, self._specs)

    def object_writes(self, least: int) -> Iterator[tuple[str, str]]:
        """Yield what the agent writes with in at least so many trajectories: tool, argument of its object."""
        for tool in sorted(self.mutating & self.agent_tools.keys()):
            argument = self.object_argument(tool)
            if argument is not None and self.agent_tools[tool] >= least:
                yield tool, argument

    @cached_property
    def reading(self) -> frozenset[str]:
        """Tools that only look."""
        return frozenset(self.tools) - self.mutating

    @cached_property
    def _calls(self) -> Counter[str]:
        """How often the agent calls each tool."""
        return Counter(step.tool for one in self.transcripts for step in one.steps if not step.by_user)

    @cached_property
    def edits(self) -> list[str]:
        """What the agent edits files with, most used first: a command line, a tool that is given a path."""
        own = (step for one in self.transcripts for step in one.steps if not step.by_user)
        about = Counter(step.tool for step in own if names_file(step.given))
        return [
            tool
            for tool, count in self._calls.most_common()
            if tool in self.mutating and _EDITS.search(spoken(tool)) and about[tool] >= MOSTLY * count
        ]

    @cached_property
    def runs(self) -> list[str]:
        """What the agent runs programs with that do more than show a file: a build, a script."""
        lines: dict[str, list[str]] = {}
        for one in self.transcripts:
            for step in one.steps:
                lines.setdefault(step.tool, []).append(command_line(step.arguments))
        shown = {tool for tool, own in lines.items() if any(not line or shows(line) for line in own)}
        return sorted(self.reading & lines.keys() - shown)

    @cached_property
    def tests(self) -> list[str]:
        """What the agent runs tests with, most used first."""
        own = self._calls.most_common()
        return [tool for tool, _ in own if tool in self.reading and _TESTS.search(spoken(tool))]

    @cached_property
    def _values(self) -> dict[str, dict[str, list[str]]]:
        """Argument -> tool -> the string values with which it was called."""
        values: dict[str, dict[str, list[str]]] = {}
        for one in self.transcripts:
            for step in one.steps:
                for argument, value in step.given.items():
                    if isinstance(value, str):
                        values.setdefault(argument, {}).setdefault(step.tool, []).append(value)
        return values

    @cached_property
    def object_arguments(self) -> dict[str, str]:
        """Arguments that name objects, with the pattern of their identifiers."""
        found: dict[str, str] = {}
        for argument, by_tool in self._values.items():
            values = [value for values in by_tool.values() for value in values]
            ids = [value for value in values if looks_like_id(value)]
            if len(set(ids)) >= 3 and len(ids) >= ID_SHARE * len(values):
                # A rare slip (a name where an identifier belongs) must not widen the pattern.
                length = Counter(len(value.lstrip("#")) for value in ids).most_common(1)[0]
                if length[1] >= 0.8 * len(ids):
                    ids = [value for value in ids if len(value.lstrip("#")) == length[0]]
                if (pattern := learn_pattern(ids)) is not None:
                    found[argument] = pattern
        return found

    def arguments_of(self, tool: str) -> frozenset[str]:
        """Return the names of what a tool is called with."""
        return frozenset(name for one in self.transcripts for step in one.calls(tool) for name in step.given)

    def given_to(self, tool: str) -> dict[str, set[str]]:
        """Return the texts that a tool is called with, by argument."""
        return {name: set(by_tool.get(tool, ())) for name, by_tool in self._values.items() if tool in by_tool}

    def values_known(self, tool: str, argument: str) -> list[str]:
        """Return the texts that an argument may have: those given, and what results show in the same place.

        The place is a field under which nearly all that was given stands, so that a value that nobody asked
        for yet is known as well.
        """
        given = self.given_to(tool).get(argument, set())
        places = [own for own in self._shown.values() if len(given & own) >= SAME_PLACE * len(given) > 0]
        return sorted(given.union(*places))

    @cached_property
    def _shown(self) -> dict[str, set[str]]:
        """Path of a field in results -> the texts that it had."""
        found: dict[str, set[str]] = {}
        for one in self.transcripts:
            for step in one.steps:
                if step.failed or not step.result.lstrip().startswith(("{", "[")):
                    continue
                try:
                    pairs = list(leaves(from_json(step.result)))
                except ValueError:
                    continue
                for path, value in pairs:
                    if isinstance(value, str):
                        found.setdefault(path, set()).add(value)
        return found

    def object_argument(self, tool: str) -> str | None:
        """Return the argument that names what a tool acts on, the first in order of calling."""
        for argument, by_tool in self._values.items():
            if tool in by_tool and argument in self.object_arguments:
                return argument
        return None

    @cached_property
    def now(self) -> str | None:
        """The moment in which the trajectories take place, as far as it is known (ISO).

        It is the policy's clock; where there is none, the latest time that a record gives to something done:
        that is too early, so that what lies before it is certainly past.
        """
        if self.policy.now is not None:
            return self.policy.now
        done = [
            moment
            for one in self.transcripts
            for seen in one.observations.values()
            for observation in seen
            for field, value in observation.fields.items()
            if _DONE.search(field) and (moment := time_of(value)) is not None
        ]
        return max(done).isoformat(sep=" ") if done else None

    def records(self, tool: str, argument: str) -> Iterator[Observation]:
        """Yield what was seen of the objects that a tool was called on."""
        for one in self.transcripts:
            for name in {normal(step.given.get(argument)) for step in one.calls(tool)}:
                yield from one.observations.get(name, ())

    def told_shape(self, tool: str) -> tuple[str, list[str]] | None:
        """Return the argument whose values users say themselves and no other tool is given, and their shapes.

        Who names a cell where a number belongs, or a new address, asks for the one tool that takes such a
        thing, in whatever words. Dates, numbers and plain words are said in passing too: they count for none.
        """
        best: tuple[int, str, list[str]] = (0, "", [])
        # An order's number is for many tools.
        elsewhere = set[str]().union(*(own for other, own in self._shapes.items() if other != tool))
        for argument in sorted(self.given_to(tool)):
            told, given, shapes = 0, 0, Counter[str]()
            for one in self.transcripts:
                for step in one.own_calls(tool):
                    value = step.given.get(argument)
                    if not isinstance(value, str):
                        continue
                    given += 1
                    others = (s for s in one.steps if s.tool != tool and s.is_about(normal(value)))
                    if value.lower() in one.asked and next(others, None) is None:
                        told += 1
                        shapes[shape_of(value)] += 1
            kept = sorted(
                one for one, n in shapes.items() if one and n >= MIN_SHAPED and one not in elsewhere
            )
            covered = sum(shapes[shape] for shape in kept)
            if kept and covered >= max(MIN_SAID, TOLD_SHARE * given) and len(kept) <= MAX_SHAPES:
                best = max(best, (covered, argument, kept))
        return best[1:] if best[0] else None

    @cached_property
    def _shapes(self) -> dict[str, set[str]]:
        """Tool to the shapes of what it is given in any run."""
        found: dict[str, set[str]] = {}
        for one in self.transcripts:
            for step in one.steps:
                own = (shape_of(value) for value in step.given.values() if isinstance(value, str))
                found.setdefault(step.tool, set()).update(own)
        return found

    def own_words(self, tool: str, words: Iterable[str]) -> list[str]:
        """Return those of some words that name a tool and no other tool that was called.

        What is said together with a call by chance does not ask for it; its own name does.
        """
        others = [other for other in self.tools if other != tool]
        return [
            word
            for word in words
            if named_after(tool, word) and not any(named_after(other, word) for other in others)
        ]

    @cached_property
    def _weights(self) -> list[float]:
        """What each transcript counts: the trials of one task count as one."""
        trials = Counter(one.task_id for one in self.transcripts)
        return [1 / trials[one.task_id] for one in self.transcripts]

    @cached_property
    def _saying(self) -> dict[str, list[tuple[int, int]]]:
        """Word -> the transcripts in which the user said it, with the message index that said it first."""
        said: dict[str, list[tuple[int, int]]] = {}
        for number, one in enumerate(self.transcripts):
            for word, index in one.words.items():
                if word in STOP_WORDS:
                    continue
                said.setdefault(word, []).append((number, index))
        return {word: places for word, places in said.items() if len(places) >= MIN_SAID}

    def cues(self, tool: str) -> list[str]:
        """Return the user's words that ask for a tool: those after which it is mostly called.

        A word counts when it makes the call at least twice as likely, when the lower Wilson bound of
        P(called or handed over later | said) is at least `CUE_BOUND` and closes half of the distance between
        P(called or handed over) and 1, and when it is no value that the tool is called with: a change that
        is handed over was asked for all the same. For words of the tool's own name the first is enough. It is
        not needed where nearly all runs in which the word was said call the tool or hand over. Trials of one
        task count as one. Words are taken until nearly all calls are covered.
        """
        if tool not in self._cues:
            good, called = self._telling(tool)
            self._cues[tool] = _cover(good, called)
        return self._cues[tool]

    def telling(self, tool: str) -> list[str]:
        """Return all words that ask for a tool as `cues` has it, also those that no call needs."""
        return sorted(self._telling(tool)[0])

    def asking(self, tool: str) -> list[str]:
        """Return those cues that are forms of the tool's verb, whatever other words go with the call."""
        good, called = self._telling(tool)
        return _cover({word: said for word, said in good.items() if asks_for(tool, word)}, called)

    def _telling(self, tool: str) -> tuple[dict[str, frozenset[int]], set[int]]:
        """Return the words that ask for a tool with where they were said, and where it was called."""
        weights = self._weights
        called = {
            n: one.by_tool[tool][0].index for n, one in enumerate(self.transcripts) if tool in one.by_tool
        }
        handed = {
            n
            for n, one in enumerate(self.transcripts)
            if tool in self.mutating
            and n not in called
            and any(hands_over(other) and other != tool for other in one.by_tool)
        }
        total = max(sum(weights), 1e-9)
        share = sum(weights[n] for n in called) / total
        dealt_share = share + sum(weights[n] for n in handed) / total
        values = {
            word
            for number in called
            for step in self.transcripts[number].by_tool[tool]
            for _, value in leaves(step.arguments)
            for word in str(value).lower().split()
        }
        good: dict[str, frozenset[int]] = {}
        for word, places in self._saying.items():
            # A word that is only said after the call did not ask for it.
            said = [number for number, index in places if number not in called or index < called[number]]
            n, hits = sum(weights[i] for i in said), sum(weights[i] for i in said if i in called)
            if hits < MIN_SAID - 1e-9 or word in values:
                continue
            dealt = hits + sum(weights[i] for i in said if i in handed)
            bound = wilson(round(dealt), max(round(n), round(dealt)))[0]
            likelier = hits >= min(2 * share, (1 + share) / 2) * n
            telling = dealt / n >= (1 + dealt_share) / 2 and bound >= CUE_BOUND
            # Where the call is mostly right to be left alone, no word makes it twice as likely.
            divided = telling and dealt >= DIVIDED * n and hits >= share / 2 * n
            if divided or (likelier and (telling or named_after(tool, word))):
                good[word] = frozenset(said)
        return good, set(called)


def _cover(good: dict[str, frozenset[int]], calling: set[int]) -> list[str]:
    """Return the words, most telling first, that together cover nearly all calls."""
    chosen: list[str] = []
    left = set(calling)
    while good and len(chosen) < MAX_CUES and len(left) > 0.05 * len(calling):
        word = max(good, key=lambda w: (len(good[w] & left), -len(good[w] - calling), w))
        gained = len(good[word] & left)
        if gained < max(2, 0.03 * len(calling)):
            break
        left -= good.pop(word)
        chosen.append(word)
    return chosen
