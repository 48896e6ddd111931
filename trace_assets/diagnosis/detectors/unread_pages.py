"""A list that goes on, and of which only the beginning was read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript

MIN_USES = 3
_GOES_ON = re.compile(
    r"\b(?:next|next_?(?:page|cursor|token|link)(?:_?token)?|continuation_?token|end_?cursor)\"? ?[:=] ?"
    r"\"?(?!null|none|false|true|0\b)[\w/]+[\w=/.:-]*\"? ?(?=[,}\n]|\Z)|"
    r"\brel(?:ation)?\"? ?[:=] ?\"next\"|"
    r"\b(?:has_?more|has_?next(?:_?page)?|(?:is_?)?truncated)\"? ?[:=] ?\"?(?:true|yes)|"
    r"(?:\.\.\.|…|\band) ?\d+ more\b|\bmore results\b|"
    r"\b\d+ more (?:lines?|rows?|results?|items?|above|below)\b",
    re.IGNORECASE,
)
"""What a result says when there is more of it."""
_PAGE_OF = re.compile(r"\bpage (\d+) (?:of|/) ?(\d+)\b", re.IGNORECASE)


class UnreadPages:
    """A look said that there was more, and the same tool was not called again for the rest.

    Relevant when a result said so. Arguments: `tool`.
    """

    name = "unread_pages"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every reading tool whose results come in parts."""
        proposals = []
        for tool in sorted(corpus.reading & corpus.agent_tools.keys()):
            parted = [
                one
                for one in corpus.transcripts
                if any(goes_on(step.result) for step in one.calls(tool, ok=True))
            ]
            if len(parted) >= MIN_USES:
                proposals.append(
                    Proposal(
                        args={"tool": tool},
                        name="Read on while a list goes on",
                        description=(
                            "When a result says that there is more of it, read the rest before concluding "
                            "from it, or before saying that something is not there."
                        ),
                        subject=(tool,),
                    )
                )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        steps = [step for step in transcript.calls(args["tool"], ok=True) if not step.by_user]
        parts = [place for place, step in enumerate(steps) if goes_on(step.result)]
        if not parts:
            return NOT_NEEDED
        last = steps[parts[-1]]
        if parts[-1] == len(steps) - 1 or steps[parts[-1] + 1].arguments == last.arguments:
            return lacking(f"{last.tool} showed that there is more, which was never read", last.end)
        return present("what was left of a list was read", last.end, steps[parts[-1] + 1].index)


def goes_on(text: str) -> bool:
    """Tell whether a result says that there is more of it than it shows.

    >>> [goes_on(one) for one in ('{"items": [], "next": "c5"}', '{"items": [], "next": null}')]
    [True, False]
    >>> goes_on("page 1 of 3"), goes_on("page 3 of 3"), goes_on("(40 more lines below)")
    (True, False, True)
    >>> goes_on('{"link": [{"relation": "next", "url": "http://a.example/p?page=2"}]}')
    True
    """
    if found := _PAGE_OF.search(text):
        return int(found[1]) < int(found[2])
    return _GOES_ON.search(text) is not None
