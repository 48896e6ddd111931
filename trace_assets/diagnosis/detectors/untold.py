"""What the policy wants the user to be asked for or told before something is done, and was not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_limits import figures_in, with_those_before
from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import calls_in, in_words, is_alike, situation_of
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import numbers_in, strings
from trace_assets.diagnosis.detectors.verbs import WORD, has_stem, is_deed, speaks_of, spoken, things
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, gerund, last_name

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
            if message.role in ("assistant", "user") and transcript.once(
                ("speaks of", index, tuple(words)), partial(_speaks_of, transcript.words_in(index), words)
            ):
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


def _speaks_of(said: Collection[str], words: Sequence[str]) -> bool:
    """Tell whether most of some words are among those said, endings aside."""
    known = [word for word in words if word in said or any(is_alike(word, one) for one in said)]
    return len(known) >= max(1, len(words) - (len(words) > 2))


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
