"""What the user was not asked: writes without consent or after a refusal, and conditions left unasked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal, stands_in
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import deed, spoken
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, gerund

MIN_USES = 3
# English only: in other languages the object must be named.
_ASKS = re.compile(
    r"\?|\b(?:please|kindly) (?:confirm|reply|respond)|\bconfirm\b|\bproceed\b|\(yes|\byes\b|\blet me know\b"
)
_WANTS_FACT = re.compile(
    r"\b(?:what(?:'s| (?:is|are|was|time|day|date|kind|size|colou?r|name|number))|"
    r"which|when|where|who|how (?:many|much|old|long)|may i have|"
    r"i(?:'ll| will)? need your|"
    r"(?:could|can|would|please)(?: you)?(?: please)? (?:give|tell|provide|share|state|send)(?: me| us)?)\b"
)
_WANTS_YES = re.compile(
    r"\b(?:shall|should|may) (?:i|we)\b(?! have)|\b(?:do|would|did) you (?:want|like|wish|agree|accept)\b|"
    r"\bwant me to\b|\blike me to\b|\bgo ahead\b|\bproceed\b|\bconfirm\b|\bagree\b|\byes\b|"
    r"\b(?:is|does) (?:that|this|it|all)\b[^?]{0,30}\b(?:right|ok|okay|correct|fine|good|work|suit)\b|"
    r"\bare you (?:sure|happy|okay|ok|certain)\b"
)
"""How an agent asks for a fact, and how for leave: who tells a date of birth has agreed to nothing."""


class WriteWithoutConsent:
    """The writing tool is called before the agent has asked the user and the user answered.

    Asking is naming the object, or a question or a request to confirm in the last thing that the agent said
    before the user's answer: "please confirm these details" need not repeat an identifier.

    Relevant when the tool was called. Arguments: `tool`, `argument` that names the object.
    """

    name = "write_without_consent"
    norm = 0.7
    mistake: Mistake = "missing_question"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool of the agent; one that acts on no named object counts as well."""
        named = dict(corpus.object_writes(MIN_USES))
        writes = (one for one in sorted(corpus.mutating) if corpus.agent_tools.get(one, 0) >= MIN_USES)
        return [
            Proposal(
                args={"tool": tool, "argument": named.get(tool, "")},
                name=f"Ask the user before {gerund(tool)}",
                description=(
                    f"Before '{spoken(tool)}', say what is about to be done to which object and wait for "
                    "the user's answer."
                ),
                subject=(tool,),
            )
            for tool in writes
            if tool in named or not hands_over(tool)
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for step in transcript.own_calls(args["tool"]):
            asked = self._asked(transcript, step, normal(step.given.get(args["argument"])))
            if asked is None:
                return lacking(f"{step.tool} was called without asking the user first", step.index)
            shown += [asked, step.index]
        return present("the user had answered before each call", *shown) if shown else NOT_NEEDED

    def _asked(self, transcript: Transcript, step: Step, name: str) -> int | None:
        """Return the agent's message that asked, and that the user answered before the step."""
        answered = passed = False
        for index in range(step.index - 1, -1, -1):
            message = transcript.messages[index]
            if message.role == "user" and message.content:
                answered = True
            elif answered and message.role == "assistant" and message.content:
                if (name and name in normal(message.content)) or (
                    not passed and _asks_leave(transcript.lowered[index])
                ):
                    return index
                passed = True
        return None


# English only: other languages give NA.
_REFUSAL = re.compile(
    r"\b(cannot|can't|can not|unable to|not able to|not allowed|not permitted|not eligible|not possible|"
    r"isn't possible|does not allow|doesn't allow|do not allow|don't allow|against (?:our|the) policy)\b"
)
_SENTENCE = re.compile(r"[^.!?\n]+")


def _asks_leave(text: str) -> bool:
    """Tell whether a text asks to be allowed something, and not for a fact alone.

    >>> [_asks_leave(one) for one in ("shall i?", "what is your date of birth?", "when? shall i move it?")]
    [True, False, True]
    """
    if not _ASKS.search(text):
        return False
    return not _WANTS_FACT.search(text) or _WANTS_YES.search(text) is not None


class WriteAfterRefusal:
    """The agent tells the user that it may not do something, and does it later when the user insists.

    A refusal that names objects is about these: doing another one is not giving in. Relevant
    when a sentence of the agent refuses and uses one of the tool's words.
    Arguments: `tool`, `words`.
    """

    name = "write_after_refusal"
    norm = 0.6
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool of the agent."""
        return [
            Proposal(
                args={"tool": tool, "words": sorted({deed(tool).split()[0], *corpus.cues(tool)[:3]})},
                name=f"Stand by a refusal of {gerund(tool)}",
                description=(
                    f"Having told the user that '{spoken(tool)}' is not allowed, do not do it later in the "
                    "same conversation because the user insists."
                ),
                subject=(tool,),
            )
            for tool in sorted(corpus.mutating & corpus.agent_tools.keys())
            if corpus.agent_tools[tool] >= MIN_USES
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        refused = self._refusal(transcript, strings(args["words"]))
        if refused is None:
            return NOT_NEEDED
        for step in transcript.calls(args["tool"], ok=True):
            if step.index > refused and not step.by_user and self._same(transcript, refused, step):
                return lacking(f"{step.tool} was called after it had been refused", refused, step.index)
        return present("the refusal was kept", refused)

    def _same(self, transcript: Transcript, refused: int, step: Step) -> bool:
        """Tell whether a refusal may concern what a step acts on: not when it names other objects alone."""
        said = normal(transcript.messages[refused].content)
        known = {name for one in transcript.steps for name in one.objects}
        named = {name for name in known if stands_in(name, said)}
        return not named or not named.isdisjoint(step.objects)

    def _refusal(self, transcript: Transcript, words: list[str]) -> int | None:
        refusals = transcript.once(("refusals",), lambda: _refusals(transcript))
        return next((at for at, sentence in refusals if any(word in sentence for word in words)), None)


def _refusals(transcript: Transcript) -> list[tuple[int, str]]:
    """Return the sentences in which the agent refuses, lower case, each with its message."""
    return [
        (index, sentence)
        for index, message in enumerate(transcript.messages)
        if message.role == "assistant" and message.content and _REFUSAL.search(transcript.lowered[index])
        for sentence in _SENTENCE.findall(transcript.lowered[index])
        if _REFUSAL.search(sentence)
    ]


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
