"""Work left when a conversation ends: an object untouched, a deed of which the first step alone is done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import find_ids, normal
from trace_assets.diagnosis.detectors.mutation import by_verb, hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.shell import command_line
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund, imperative, noun

MIN_USES = 4


class EndedWithWorkOpen:
    """The user asked for what a writing tool does (a cue word), and it was never called successfully.

    Cues are forms of the tool's verb: other words may go with a call without asking for it. Or they are
    things of a shape that only this tool is given, and that users name (`put it into B4`). Relevant
    when a cue was said. It counts also when the conversation ended by a transfer: whether
    successful runs do so is for the contrast to say. Arguments: `tool`, `cues` or `shapes`.
    """

    name = "ended_with_work_open"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool that the user's words ask for, also one that tasks demand in vain."""
        proposals = []
        for tool in sorted(corpus.mutating & corpus.tools.keys()):
            if corpus.tools[tool] >= MIN_USES and (cues := corpus.asking(tool)):
                proposals.append(self._proposal(tool, cues))
            told = (
                corpus.told_shape(tool) if corpus.tools[tool] >= MIN_USES and not hands_over(tool) else None
            )
            if told is not None:
                proposals.append(self._of_shapes(tool, *told))
        for tool in sorted(corpus.unmade_writes):
            if cues := corpus.demanding(tool):
                proposals.append(replace(self._proposal(tool, cues), never=True))
        return proposals

    def _of_shapes(self, tool: str, argument: str, shapes: list[str]) -> Proposal:
        thing = noun(argument)
        return Proposal(
            args={"tool": tool, "shapes": shapes},
            name=f"When the user names the {thing}, {imperative(tool)} before ending",
            description=(
                f"A {thing} that the user names is for '{spoken(tool)}' alone: see that it is done "
                "successfully before the conversation ends."
            ),
            subject=(tool, argument),
        )

    def _proposal(self, tool: str, cues: list[str]) -> Proposal:
        return Proposal(
            args={"tool": tool, "cues": cues},
            name=f"When asked to, {imperative(tool)} before ending",
            description=(
                f"When the user asks for what '{spoken(tool)}' does, see that it is done successfully before "
                "the conversation ends or is handed over."
            ),
            subject=(tool,),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        asked = _told(transcript, args) if "shapes" in args else transcript.cue(args["cues"])
        if asked is None:
            return NOT_NEEDED
        done = transcript.calls(args["tool"], ok=True)
        if done:
            return present(f"asked for and done with {args['tool']}", asked, done[0].index)
        return lacking(f"asked for, and {args['tool']} never succeeded", asked, transcript.last_of_agent())


def _told(transcript: Transcript, args: Mapping[str, Any]) -> int | None:
    """Return where the user first names a thing of one of these shapes that no other tool is given."""
    sign = re.compile(rf"(?<![\w@.-])(?:{'|'.join(args['shapes'])})(?![\w@-]|\.\w)")
    for index, message in enumerate(transcript.messages):
        for found in sign.finditer(message.content or "") if message.role == "user" else ():
            about = (step for step in transcript.steps if step.is_about(normal(found[0])))
            if all(step.tool == args["tool"] for step in about):
                return index
    return None


FOLLOWS = 0.5
"""Share of the tasks with the first step in which the second mostly came after it."""
ALONE = 0.1
"""Share of the tasks with the second step in which it may come without the first."""

MINTED = 0.9
"""Share of the second step's calls that are given what the first one made."""


class UnfinishedDeed:
    """Step X is mostly followed by the writing tool Y on the same thing, Y never comes alone, and it did not.

    Such as a hold that has to be confirmed, a draft that has to be sent, a value that is checked and then
    entered. The same thing: Y is given an argument that X was given, or that X's result showed. X shows by
    itself that it is not what was asked for: it must be a step of which Y is the end. Relevant when X
    succeeded. Arguments: `first` X, `tool` Y.
    """

    name = "unfinished_deed"
    norm = 0.75
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair every step with the writing tools that complete it."""
        did: dict[str, set[str]] = {}
        after: dict[tuple[str, str], set[str]] = {}
        for one in corpus.transcripts:
            steps = [step for step in one.steps if not step.failed and not step.by_user]
            for place, step in enumerate(steps):
                did.setdefault(step.tool, set()).add(one.trajectory_id)
                for later in steps[place + 1 :] if not hands_over(step.tool) else ():
                    if later.tool in corpus.mutating and later.tool != step.tool and _same(step, later):
                        after.setdefault((step.tool, later.tool), set()).add(one.trajectory_id)
        proposals = []
        for (first, tool), runs in sorted(after.items()):
            if hands_over(tool) or len(runs) < MIN_USES or len(runs) < FOLLOWS * len(did[first]):
                continue
            if len(runs) == len(did[first]) or len(did[tool] - runs) > ALONE * len(did[tool]):
                continue
            half = _is_step(corpus, first, tool) or (by_verb(first) is None and _mints(corpus, first, tool))
            if first in corpus.reading and not half:
                continue
            proposals.append(
                Proposal(
                    args={"first": first, "tool": tool},
                    name=f"Go on to {imperative(tool)} after {gerund(first)}",
                    description=(
                        f"'{spoken(first)}' alone does not finish the matter: go on with '{spoken(tool)}' on "
                        "the same thing before telling the user that it is done or ending."
                    ),
                    subject=(first, tool),
                )
            )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        begun = transcript.own_calls(args["first"], ok=True)
        done = transcript.own_calls(args["tool"])
        if not begun:
            return NOT_NEEDED
        after = [step for step in done if step.index > begun[0].index]
        if after:
            return present(f"{args['tool']} came after {args['first']}", begun[0].index, after[0].index)
        return lacking(
            f"{args['first']} was not followed by {args['tool']}", begun[-1].index, transcript.last_of_agent()
        )


def _same(first: Step, later: Step) -> bool:
    """Tell whether a call is given what another was given or showed, and no mere number or flag."""
    given = {normal(value) for _, value in leaves(first.arguments) if _tells(value)}
    if later.objects & first.objects:
        return True
    result = normal(first.result)
    return any(
        normal(value) in given or (normal(value) in later.objects and normal(value) in result)
        for _, value in leaves(later.arguments)
        if _tells(value)
    )


def _tells(value: object) -> bool:
    return isinstance(value, str) and len(value) > 3


def _is_step(corpus: Corpus, first: str, tool: str) -> bool:
    """Tell whether a look is the first half of a write: it is given all that the write is given."""
    given, wanted = corpus.arguments_of(first), corpus.arguments_of(tool)
    return len(wanted) > 1 and wanted <= given


def _mints(corpus: Corpus, first: str, tool: str) -> bool:
    """Tell whether a step makes what the write is given: a code, a draft's number, that nobody had before."""
    made = given = 0
    for one in corpus.transcripts:
        for step in one.calls(tool):
            given += 1
            source = next(
                (at for at, said in enumerate(one.lowered) if any(name in said for name in step.objects)),
                None,
            )
            made += any(source is not None and source == other.answer for other in one.calls(first, ok=True))
    return made > 0 and made >= MINTED * given


_MORE = re.compile(
    r"(?:\A|[.!?;,]\s+|\n)(?:and|also|plus|then|besides|additionally|in addition|on top of that|next|"
    r"afterwards|after that|secondly|while you(?:'re| are) at it|one more thing|another thing)\b|"
    r"\b(?:and|should|would|could|can you|please) also\b|\band (?:please|(?:can|could|would) you)\b|"
    r"\b(?:as well|too)\s*(?:,?\s*(?:please|thanks|thank you|if (?:you can|possible)))?\s*(?:[.!?,;]|\Z)|"
    r"\b(?:außerdem|ausserdem|zusätzlich|zudem|ebenfalls|auch noch|und (?:bitte|dann|noch|auch))\b|"
    r"\b(?:bitte|(?:brauche|möchte|hätte)(?: ich)?|könn(?:en|ten) sie|kannst du) (?:auch|noch)\b|"
    r"\b(?:además|también|de paso|asimismo|y (?:luego|después|por favor))\b|"
    r"\b(?:aussi|également|en plus|de plus|par ailleurs|en outre|et (?:puis|ensuite))\b|"
    r"\b(?:inoltre|anche(?! se\b)|e poi|além disso|também|e depois)\b|"
    r"\b(?:daarnaast|bovendien|ook nog|en (?:ook|dan))\b"
)
"""How a request goes on to something else that is wanted, also in German and five other languages."""
_REPORT = re.compile(
    r"\s*(?:an?|the|this|our) (?:user|customer|caller|client|guest|member|patient|passenger)\b"
)
"""How a report on somebody begins who does not speak himself: what it adds up is no list of wishes."""


class SecondRequestLeft:
    """The user asks for something more in the same message, and only one thing was done.

    Done is what a writing tool did, each different call once; where the agent has none, how often the tool
    that it used most was called differently. Relevant when something was done. No arguments.
    """

    name = "second_request_left"
    norm = 0.7
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where several runs have such a request."""
        writes = sorted(corpus.mutating & corpus.agent_tools.keys())
        asked = sum(_asks_for_more(one) is not None for one in corpus.transcripts)
        if asked < MIN_USES:
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Do all that a request asks for, not its first part alone",
                description=(
                    "When the user asks for something more in the same message, go on after the first part "
                    "until the rest has been done, or say why it is not, before ending."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        asked = _asks_for_more(transcript)
        if asked is None:
            return NOT_NEEDED
        writes, done = set(args["writes"]), dict[str, dict[str, int]]()
        for step in transcript.steps:
            if not (step.failed or step.by_user) and (step.tool in writes or not writes):
                key = "" if writes else step.tool
                done.setdefault(key, {}).setdefault(f"{step.tool} {step.arguments}", step.index)
        most = max(done.values(), key=len, default={})
        if not most:
            return NOT_NEEDED
        if len(most) == 1:
            return lacking("more was asked for, and one thing was done", asked, transcript.last_of_agent())
        return present("more was asked for, and more than one thing was done", asked, *most.values())


def _asks_for_more(transcript: Transcript) -> int | None:
    """Return the first message in which the user asks for something more than one thing."""
    for index, message in enumerate(transcript.messages):
        text = transcript.lowered[index].strip() if message.role == "user" else ""
        if not _REPORT.match(text) and _MORE.search(text):
            return index
    return None


MIN_NAMES = 4
"""Different names by which users must have called what an argument is given."""
TOLD = 0.5
"""Share of an argument's values that the user must have said by name."""
_PART = re.compile(r"[./_:\s-]")
_BETWEEN = re.compile(
    r"\s*(?:,|;|/|&|\+|\b(?:and|or|und|y|e|et|then)\b)\s*(?:(?:the|in|der|die|das|el|la|le)\s+)*"
)


class ObjectUntouched:
    """The user names several objects of one kind, and some of them occur in no call of the agent.

    Objects go by identifiers, or by the names that users have for them (`attic` for `light.attic`); of the
    latter only those count that stand in one list, since a name may be said in passing. Relevant when at
    least two are named: a request about a single object says nothing about going on. Arguments: `argument`
    that names the kind of object, and `pattern` of its identifiers or the `names` of the objects.
    """

    name = "object_untouched"
    norm = 0.6
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every kind of object that calls name; kinds whose names look alike are one."""
        proposals: dict[str, Proposal] = {}
        for argument, pattern in sorted(corpus.object_arguments.items()):
            thing = noun(argument)
            proposals.setdefault(
                pattern,
                Proposal(
                    args={"argument": argument, "pattern": pattern},
                    name=f"Deal with every {thing} the user names",
                    description=(
                        f"When a request concerns more than one {thing}, go on after the first one until "
                        "each has been dealt with, before ending the conversation."
                    ),
                    subject=(argument,),
                ),
            )
        for argument, names in _told_names(corpus).items():
            thing = noun(argument)
            proposals[argument] = Proposal(
                args={"argument": argument, "names": sorted(names)},
                name=f"Deal with every {thing} the user lists",
                description=(
                    f"When a request lists several, such as {' and '.join(sorted(names)[:2])}, go on until "
                    "each has been dealt with, before ending the conversation."
                ),
                subject=(argument, "listed"),
            )
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        named: dict[str, int] = {}
        for index, message in enumerate(transcript.messages):
            if message.role == "user" and message.content:
                names = args.get("names")
                for name in _listed(message.content, names) if names else _named(message.content, args):
                    named.setdefault(name, index)
        if len(named) < 2:
            return NOT_NEEDED
        touched: dict[str, int] = {}
        for step in transcript.steps:
            if not step.by_user:
                values = {normal(value) for _, value in leaves(step.arguments)}
                if "names" in args:
                    values |= {_last(value) for value in values} | set(command_line(step.arguments).split())
                for value in values & named.keys():
                    touched.setdefault(value, step.index)
        missed = [name for name in named if name not in touched]
        mentions = set(named.values())
        if missed:
            agent = transcript.last_of_agent()
            return lacking(f"{', '.join(missed)} named by the user, in no call", *mentions, agent)
        return present(f"all {len(named)} named objects occur in calls", *mentions, *touched.values())


def _named(text: str, args: Mapping[str, Any]) -> Iterable[str]:
    return find_ids(text, str(args["pattern"]))


def _last(value: str) -> str:
    """Return the last part of a value: what people call it by.

    >>> _last("light.attic"), _last("v_margin_oct")
    ('attic', 'oct')
    """
    return _PART.split(value)[-1]


def _told_names(corpus: Corpus) -> dict[str, set[str]]:
    """Return by argument the names that its values have in the words of users."""
    given: dict[str, int] = {}
    told: dict[str, int] = {}
    names: dict[str, set[str]] = {}
    for one in corpus.transcripts:
        for step in one.steps:
            typed = [("command", word) for word in command_line(step.arguments).split()[1:]]
            for path, value in (*leaves(step.values), *typed):
                argument, name = path.rpartition(".")[2], _last(normal(value))
                if step.by_user or not isinstance(value, str) or not name.isalpha() or len(name) < 3:
                    continue
                given[argument] = given.get(argument, 0) + 1
                if name in one.words:
                    told[argument] = told.get(argument, 0) + 1
                    names.setdefault(argument, set()).add(name)
    return {
        argument: own
        for argument, own in names.items()
        if len(own) >= MIN_NAMES and told[argument] >= TOLD * given[argument]
    }


def _listed(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that stand in a list of at least two.

    >>> _listed("Lights off in the attic, the hall and the study", ["attic", "hall", "study"])
    ['attic', 'hall', 'study']
    >>> _listed("from hall to study", ["hall", "study"])
    []
    """
    any_of = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    places = list(re.finditer(rf"(?<![\w-])(?:{any_of})(?![\w-])", text.lower()))
    found: list[str] = []
    for one, other in pairwise(places):
        if _BETWEEN.fullmatch(text.lower()[one.end() : other.start()]):
            found += [one.group(0), other.group(0)]
    return list(dict.fromkeys(found))
