"""What the user agreed to when the agent proposed it, and the agent never did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.wording import asks_for

_WORD = re.compile(r"[^\W\d_]{3,}")
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
# English only: other languages give NA.
_PROPOSES = re.compile(
    r"\b(?:shall i|should i|do you want me|would you like (?:me )?to|let me know if you(?:'d| would) like|"
    r"please confirm|could you (?:please )?confirm|do you confirm|if you would like to proceed)\b"
)
_AGREES = re.compile(
    r"\A\W*(?:yes|yeah|yep|yup|sure|ok(?:ay)?|absolutely|certainly|go ahead|please do|please proceed)\b"
)
_TAKES_BACK = re.compile(
    r"\b(?:no longer|never ?mind|forget (?:it|that)|don't|do not|instead|cancel that|leave it|"
    r"changed my mind|rather|not yet|hold on|wait|one more)\b|\A\W*no\b"
)
_CANNOT = re.compile(
    r"\b(?:cannot|can't|can not|unable|not able|not (?:be )?(?:possible|allowed|eligible)|no longer|won't|"
    r"not \w+able|must|need (?:to|your|the)|require[sd]?)\b"
)


class AgreedDeedLeft:
    """The agent proposed a change and the user agreed, and until the end no change was even tried.

    NA when the user took it back later, or the agent said of that deed that it cannot be done. PRESENT when a
    change followed. Relevant when a proposal was agreed to and the agent spoke after it. Arguments: `writes`.
    """

    name = "agreed_deed_left"
    norm = 0.8
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when the agent has tools that change something."""
        writes = sorted(one for one in corpus.mutating & corpus.agent_tools.keys() if not hands_over(one))
        if not writes:
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Do what the user has agreed to before anything else, and before handing over",
                description=(
                    "When the user agrees to a change that was proposed, make it. A wish that cannot be met "
                    "is no reason to leave it, nor to hand the conversation over first."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes = strings(args["writes"])
        tried = [step for step in transcript.steps if step.tool in set(writes) and not step.by_user]
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "user" or not _AGREES.search(transcript.lowered[index]):
                continue
            tools = self._proposed(transcript, index, writes)
            if not tools:
                continue
            done = [step for step in tried if step.index > index]
            if done:
                shown += [index, done[0].index]
            elif self._is_left(transcript, index, tools):
                last = transcript.last_of_agent()
                return lacking(f"the user agreed to {tools[0]}, and no change was tried", index, last)
        return present("what was agreed to was followed by a change", *shown) if shown else NOT_NEEDED

    def _proposed(self, transcript: Transcript, answer: int, writes: list[str]) -> list[str]:
        """Return the changes that the agent's message before an answer proposes."""
        before = transcript.lowered[answer - 1].replace("’", "'") if answer else ""
        if not answer or transcript.messages[answer - 1].role != "assistant":
            return []
        found: list[str] = []
        for sentence in _SENTENCE.findall(before):
            if _PROPOSES.search(sentence):
                words = _WORD.findall(sentence)
                found += [one for one in writes if any(asks_for(one, word) for word in words)]
        return found

    def _is_left(self, transcript: Transcript, answer: int, tools: list[str]) -> bool:
        """Tell whether the agent spoke or acted on, and neither side says why nothing came of it."""
        words = transcript.lowered[answer].replace("’", "'")
        if _TAKES_BACK.search(words) or transcript.last_of_agent() < answer:
            return False
        for index in range(answer + 1, len(transcript.messages)):
            text = transcript.lowered[index].replace("’", "'")
            if transcript.messages[index].role == "user" and _TAKES_BACK.search(text):
                return False
            if transcript.messages[index].role == "assistant":
                for sentence in _SENTENCE.findall(text):
                    of_it = any(asks_for(tools[0], word) for word in _WORD.findall(sentence))
                    if of_it and _CANNOT.search(sentence):
                        return False
        return True
