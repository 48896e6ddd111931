"""What the policy wants the user to be asked for before anything is done, and was not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import is_alike
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import WORD, speaks_of
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, gerund

MIN_SHOWN = 3
MOSTLY = 0.5
"""Share of the runs with a change in which the fact must be asked for or told."""
# English only: a policy in another language gives no proposals.
_ASKS_FOR = re.compile(
    r"\b(?:ask|asks|asked|asking|request|requests|require|requires|demand|demands)\b"
    r"(?: [a-z']+){0,3}? (?:for |to (?:give|state|tell|confirm|provide|name) |about |how |what |which )"
    r"(?P<fact>[^.;:]+)|"
    r"\b(?:ask|asks|get|gets|collect|collects|obtain|obtains|take|takes|note|need|needs|require)\b"
    r"(?: for| down)? (?P<kind>(?:[a-z']+ ){0,4}?(?:date of birth|birth ?date|numbers?|address|code|digits|"
    r"e-?mail|phone|names?|pass ?(?:word|phrase|code)|post ?code|pin|signature|age|weight|height|dates?)\b)|"
    r"\b(?:tells?|told|gives?|given|gave) you (?P<told>(?:their|his or her|the|a|an) [^.;:]+)|"
    r"\b(?:give|gives|state|states|provide|provides|name|names|confirm|confirms|quote|quotes) "
    r"(?P<given>(?:their|his or her|the|a|an) [^.;:]+)"
)
_ENDS = re.compile(
    r",|\b(?:and (?:then|compare|check|run|look|hold|only)|before|with|so that|when|if|unless)\b"
)
_TELLING = 3
"""Words of what is asked for that are looked for."""
_NO_FACT = frozenset(
    {
        "agent",
        "anything",
        "both",
        "caller",
        "client",
        "customer",
        "customers",
        "everything",
        "guest",
        "member",
    }
    | {"patient", "people", "person", "their", "them", "user", "users", "whoever", "yes", "clear", "answer"}
    | {"details", "information", "confirmation", "consent", "permission", "approval", "help", "more"}
)


class UnaskedFact:
    """The policy wants the user to be asked for a fact, and a change was made before anybody spoke of it.

    A date of birth, the last digits of a number, how many people there are. PRESENT when the agent asked for
    it, or the user told it unasked, before the first change. Relevant when something was changed.
    Arguments: `words` of the fact, `writes`.
    """

    name = "unasked_fact"
    norm = 0.9
    mistake: Mistake = "missing_question"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every fact that a sentence wants and that agents mostly ask for."""
        writes = [one for one in sorted(corpus.mutating & corpus.agent_tools.keys()) if not hands_over(one)]
        proposals: dict[tuple[str, ...], Proposal] = {}
        for sentence in corpus.policy.sentences if writes else ():
            for words, phrase in facts_in(sentence.text):
                # A sentence that names a deed (`before a job is created`) is about that one alone.
                meant = [one for one in writes if speaks_of(sentence.text, one)]
                meant = meant or [one for one in writes if self._is_asked(corpus, words, one)]
                if not meant:
                    continue
                args = {"words": words, "writes": meant}
                labels = [self.label(one, args).label for one in corpus.transcripts]
                right, wrong = labels.count("PRESENT"), labels.count("LACKING")
                if right < MIN_SHOWN or right < MOSTLY * (right + wrong):
                    continue
                when = gerund(meant[0]) if len(meant) == 1 else "changing anything"
                one = Proposal(
                    args=args,
                    name=f"Ask for {phrase} before {when}",
                    description=f"Ask the user for {phrase} before {when}: '{sentence.text}'",
                    subject=tuple(words),
                )
                proposals.setdefault(one.subject, one)
        return list(proposals.values())

    def _is_asked(self, corpus: Corpus, words: Sequence[str], tool: str) -> bool:
        """Tell whether a fact is mostly spoken of before a tool is called: others do not need it."""
        args = {"words": words, "writes": [tool]}
        labels = [self.label(one, args).label for one in corpus.transcripts]
        right, wrong = labels.count("PRESENT"), labels.count("LACKING")
        return right > 0 and right >= MOSTLY * (right + wrong)

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes, words = set(strings(args["writes"])), strings(args["words"])
        first = next(
            (step for step in transcript.steps if step.tool in writes and not (step.by_user or step.failed)),
            None,
        )
        if first is None:
            return NOT_NEEDED
        for index, message in enumerate(transcript.messages[: first.index]):
            if message.role in ("assistant", "user") and _speaks_of(transcript.lowered[index], words):
                return present("it was asked for or told", index, first.index)
        return lacking(
            f"{first.tool} was called, and nobody had spoken of the {' '.join(words)}", first.index
        )


def facts_in(sentence: str) -> Iterator[tuple[list[str], str]]:
    """Yield the telling words of what a sentence wants to be asked for, and how it says it.

    >>> list(facts_in("ask for the date of birth and run verify_member with it."))
    [(['date', 'birth'], 'the date of birth')]
    >>> list(facts_in("before you tell anything, ask the patient for the last four digits of the number."))
    [(['last', 'four', 'digits'], 'the last four digits of the number')]
    >>> list(facts_in("get the customer's mobile number before a job is created."))
    [(['mobile', 'number'], "the customer's mobile number")]
    >>> list(facts_in("ask the customer for consent.")), list(facts_in("be kind."))
    ([], [])
    """
    for found in _ASKS_FOR.finditer(sentence):
        phrase = _ENDS.split(next(one for one in found.groups() if one))[0].strip()
        words = [
            word
            for word in WORD.findall(phrase)
            if len(word) > 3 and word not in _NO_FACT and word not in STOP_WORDS - {"last", "first"}
        ]
        if words:
            yield words[:_TELLING], phrase


def _speaks_of(text: str, words: Sequence[str]) -> bool:
    """Tell whether a text has most of some words, endings aside."""
    said = WORD.findall(text)
    known = [word for word in words if any(word == one or is_alike(word, one) for one in said)]
    return len(known) >= max(1, len(words) - (len(words) > 2))
