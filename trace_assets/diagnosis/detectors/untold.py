"""What the policy wants the user to be told before something is done, and was not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_figures import figures_in, with_those_before
from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import calls_in, in_words, is_alike, situation_of
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import numbers_in
from trace_assets.diagnosis.detectors.verbs import WORD, has_stem, is_deed, things
from trace_assets.diagnosis.detectors.wording import gerund, last_name, spoken

MIN_USES = 3
_TELLS = re.compile(
    r"\b(?:tell|tells|told|telling|inform\w*|mention\w*|state[sd]?|stating|say|says|said|saying|hear|hears|heard|"
    r"quote[sd]?|quoting|announce\w*|explain\w*|advise[sd]?|warn\w*|point\w* out|aware|disclos\w*|names?|"
    r"named|naming|read\w* back|repeat\w*|remind\w*|know|knows|let \w+ \w* ?know|notif\w+|agree[sd]?|"
    r"accept\w*|consent\w*|confirm\w*|"
    r"learns?|learnt|understands?|find out|spell\w* out|communicat\w*|acknowledg\w*)\b"
)
# English only: a policy in another language gives no proposals.


class UntoldFigure:
    """The policy wants a figure to be told before the tool X is used, and no word before the call has it.

    The figure stands in a sentence on telling, or in the one before it; of a field that such a sentence names
    (`read the total back`) it is the value that X is given or that a record shows. The user's own words count
    as well: who names the fee knows it. Relevant when X was called, in the situation in which runs do so.
    Arguments: `tool`, `number` or `field`, `situation`.
    """

    name = "untold_figure"
    norm = 0.8
    mistake: Mistake = "missing_question"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every figure of such a sentence for the tools that mostly follow when it was told."""
        proposals: dict[tuple[str, ...], Proposal] = {}
        for sentence, above in with_those_before(corpus.policy):
            if not _TELLS.search(sentence.text):
                continue
            stating = next((one for one in (sentence, *above) if figures_in(one.text)), sentence)
            figures = figures_in(stating.text)
            before = stating if stating is not sentence else (above[0] if above else None)
            said = f"{sentence.heading} {before.text if before else ''} {sentence.text}"
            told = [{"number": one.number * (100 if one.share else 1), "shown": one.shown} for one in figures]
            for tool in sorted(corpus.mutating & corpus.agent_tools.keys()):
                seldom = corpus.agent_tools[tool] < MIN_USES or hands_over(tool)
                if seldom or not _is_about(sentence, above, tool):
                    continue
                calls = [(one, step) for one in corpus.transcripts for step in one.own_calls(tool, ok=True)]
                for what in told or [{"field": one} for one in _fields(sentence, calls)]:
                    one = _proposal(tool, what, sentence, said, calls, corpus.now)
                    if one is not None:
                        proposals.setdefault(one.subject, one)
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for step in calls_in(args["situation"], transcript, args["tool"]):
            wanted = _wanted(transcript, step, args)
            if not wanted:
                continue
            at = _told_at(transcript, step, wanted)
            if at is None:
                what = args.get("shown") or f"the {spoken(args['field'])}"
                return lacking(f"{what} was not told before {step.tool} was called", step.index)
            shown += [at, step.index]
        return present("the figure had been told before the call", *shown) if shown else NOT_NEEDED


def _proposal(
    tool: str,
    what: Mapping[str, Any],
    sentence: Sentence,
    said: str,
    calls: list[tuple[Transcript, Step]],
    now: str | None,
) -> Proposal | None:
    def did(one: Transcript, step: Step) -> bool | None:
        wanted = _wanted(one, step, what)
        return _told_at(one, step, wanted) is not None if wanted else None

    situation = situation_of(calls, did, said, tool, now=now)
    if situation is None:
        return None
    thing = str(what.get("shown") or f"the {spoken(str(what['field']))}")
    where = f" ({in_words(situation)})" if situation else ""
    return Proposal(
        args={"tool": tool, **what, "situation": dict(situation)},
        name=f"Tell the user {thing} before {gerund(tool)}",
        description=f"Before '{spoken(tool)}', tell the user {thing}{where}: '{sentence.text}'",
        subject=(tool, str(what.get("shown") or what["field"])),
    )


def _is_about(sentence: Sentence, above: Sequence[Sentence], tool: str) -> bool:
    """Tell whether a sentence, those above it or their heading speak of what a tool does or acts on."""
    text = " ".join([sentence.heading, *(one.text for one in above), sentence.text])
    words = WORD.findall(text)
    return is_deed(tool, words) or any(has_stem(words, one) for one in things(tool))


_SUM = re.compile(
    r"(?:^|_)(?:amount|balance|charge|cost|credit|deposit|due|fare|fee|payment|premium|price|rate|refund|rent|"
    r"sum|total|value)s?(?:_|$)"
)
"""Fields that hold sums."""


def _fields(sentence: Sentence, calls: list[tuple[Transcript, Step]]) -> list[str]:
    """Return the arguments and fields with numbers that a sentence on telling names."""
    found: dict[str, None] = {}
    behind = sentence.text[_TELLS.search(sentence.text).end() :]  # type: ignore[union-attr]
    words = [word for word in WORD.findall(behind) if len(word) > 3]
    for one, step in calls:
        names = [*step.given, *(field for seen in _seen(one, step) for field in seen)]
        for name in names:
            parts = [part for part in spoken(last_name(name)).split() if len(part) > 2]
            if (
                _SUM.search(last_name(name))
                and parts
                and all(any(is_alike(part, word) for word in words) for part in parts)
            ):
                found.setdefault(last_name(name))
    return list(found)[:4]


def _seen(one: Transcript, step: Step) -> list[Mapping[str, str]]:
    names = step.names
    about = [name for name in one.observations if name in names]
    return [seen.fields for name in about for seen in one.observations[name] if seen.index < step.index]


def _wanted(one: Transcript, step: Step, what: Mapping[str, Any]) -> frozenset[float]:
    """Return the numbers of which one has to be told; none where the run shows none."""
    if "number" in what:
        return frozenset({float(what["number"])})
    found = set[float]()
    given = {last_name(name): value for name, value in step.given.items()}
    values = [given.get(what["field"])]
    if values == [None]:
        values = [
            value
            for seen in _seen(one, step)
            for name, value in seen.items()
            if last_name(name) == what["field"]
        ]
    for value in values:
        numbers = set(numbers_in(str(value))) if isinstance(value, int | float | str) else set()
        if len(numbers) == 1 and not isinstance(value, bool):
            found |= numbers
    return frozenset(found)


def _told_at(one: Transcript, step: Step, wanted: frozenset[float]) -> int | None:
    """Return the last message before a call in which one of some numbers is said; None without one."""
    for index in range(step.index - 1, -1, -1):
        message = one.messages[index]
        spoken_by = message.role in ("assistant", "user")
        if spoken_by and not wanted.isdisjoint(numbers_in(one.lowered[index])):
            return index
    return None
