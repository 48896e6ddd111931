"""An object that the user named and that no call ever concerned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import find_ids, normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import command_line, leaves
from trace_assets.diagnosis.detectors.wording import noun

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
