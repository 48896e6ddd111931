"""What only the user can tell, on which the policy makes a step depend, and which was never asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import STOP_WORDS, Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.wording import spoken

# English only: a policy in another language gives no proposals.
_IF = re.compile(
    r"\bif (?:the|a|an|your) (?:account holder|applicant|borrower|buyer|caller|cardholder|citizen|client|"
    r"customer|driver|employee|guest|holder|insured|learner|member|parent|passenger|patient|patron|policyholder|"
    r"reader|rider|renter|resident|shopper|student|subscriber|tenant|traveller|traveler|user|visitor) "
    r"is ([a-z' -]{4,60})"
)
"""People that a policy calls those who ask."""
_WORD = re.compile(r"[a-z]+")
_STEPS = re.compile(r"\b(?:you should|guide|ask|check|enable|offer|use|must|make sure|help)\b")
_NO_TOPICS = frozenset(
    {"address", "cause", "common", "diagnos", "general", "guide", "guideline", "handl", "introduction"}
    | {"issue", "overview", "policy", "problem", "procedure", "rule", "step", "support", "troubleshoot"}
    | {"understand", "policie"}
)
"""Words of headings, without their endings, that name no subject."""
_ALIKE: tuple[frozenset[str], ...] = (
    frozenset({"travel", "abroad", "oversea", "outside", "foreign", "vacation", "holiday"}),
    frozenset({"pregnan", "expecting"}),
    frozenset({"minor", "underage", "child", "teenager"}),
    frozenset({"unemploy", "jobless", "laid"}),
    frozenset({"deceas", "died", "dead", "passed"}),
    frozenset({"ill", "sick", "unwell", "hospital"}),
    frozenset({"student", "school", "college", "university"}),
    frozenset({"retir", "pension", "senior"}),
    frozenset({"disabl", "wheelchair", "impair", "handicap"}),
)
"""Stems by which people tell one situation; a policy's word is seldom the one that a user says."""
HEAD = 2
"""Words of the condition that tell it: those that come first."""


class UnaskedCondition:
    """The policy says what to do if the user is in a certain situation, and the agent never asked.

    Only situations that no result shows: what a look tells needs no question. Relevant when the agent spoke
    with a user about what the sentence is about (a word of its heading) for two turns at least. PRESENT when
    the agent asked, or the user said it unasked. Arguments: `stems` of the situation, `topics`.
    """

    name = "unasked_condition"
    norm = 0.0
    mistake: Mistake = "missing_question"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every situation of the user's that the policy makes a step depend on."""
        shown = {
            word
            for one in corpus.transcripts
            for step in one.steps
            for word in _WORD.findall(step.result.lower())
        }
        groups: list[tuple[set[str], set[str], str]] = []
        for sentence in corpus.policy.sentences:
            found = _IF.search(sentence.text)
            if found is None or not _STEPS.search(sentence.text[found.end() :]):
                continue
            words = [
                word for word in _WORD.findall(found.group(1)) if word not in STOP_WORDS and len(word) > 3
            ]
            stems = {_stem(word) for word in words[:HEAD]}
            stems = {stem for stem in stems if not any(word.startswith(stem) for word in shown)}
            if not stems:
                continue
            topics = {
                word
                for word in _WORD.findall(sentence.heading)
                if len(word) > 3 and word not in STOP_WORDS and _stem(word) not in _NO_TOPICS
            }
            for group in groups:
                if not group[0].isdisjoint(stems):
                    group[0].update(stems)
                    group[1].update(topics)
                    break
            else:
                groups.append((stems, topics, found.group(1).split(",")[0].split(" and ")[0].strip()))
        return [
            Proposal(
                args={"stems": sorted(stems), "topics": sorted(topics)},
                name=f"Ask whether the user is {phrase}",
                description=(
                    f"What is to be done depends on whether the user is {phrase}, and no tool shows it: ask, "
                    "unless the user has said so, before ending or handing over."
                ),
                subject=tuple(sorted(stems)),
            )
            for stems, topics, phrase in groups
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        stems, topics = strings(args["stems"]), strings(args["topics"])
        ways = _other_words(stems)
        turns = [i for i, one in enumerate(transcript.messages) if one.role == "user" and one.content]
        if len(turns) < 3:
            return NOT_NEEDED
        spoke = None
        for index, message in enumerate(transcript.messages):
            if message.role not in ("user", "assistant") or not message.content:
                continue
            words = _WORD.findall(transcript.lowered[index])
            said = any(word.startswith(way) for word in words for way in ways)
            if said and (message.role == "user" or "?" in transcript.lowered[index]):
                return present("it was asked or said", index)
            if spoke is None and any(word.startswith(_stem(topic)) for word in words for topic in topics):
                spoke = index
        if spoke is None:
            return NOT_NEEDED
        return lacking(f"never asked about '{', '.join(stems)}'", spoke, transcript.last_of_agent())


def _other_words(stems: Iterable[str]) -> frozenset[str]:
    """Return stems with those by which people say the same.

    >>> "abroad" in _other_words(["travel", "outside"]), sorted(_other_words(["blind"]))
    (True, ['blind'])
    """
    own = frozenset(stems)
    return own.union(*(group for group in _ALIKE if not group.isdisjoint(own)))


def _stem(word: str) -> str:
    """Return a word without what it is bent by.

    >>> _stem("traveling"), _stem("outside"), _stem("issues")
    ('travel', 'outside', 'issue')
    """
    word = spoken(word)
    for ending in ("ing", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
