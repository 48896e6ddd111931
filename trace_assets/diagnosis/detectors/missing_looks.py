"""Looks that were not taken: before a change or after it, where the user asks, and at further pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_looks import listed_before, looks_before
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import ALWAYS, holds, in_words, situation_of
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund, imperative, look, noun, title

MIN_USES = 3


class UnreadPrerequisite:
    """The policy wants one of the tools Y, mostly a look, to be called before the tool X, and none was.

    What is looked at may be another object than the one X is called on (the quota of its project), so any
    successful look before counts; one that no run takes is wanted as well. Relevant when X was called; where
    runs look in one situation that the sentence names (`a legal text`) and hardly in others, in that one.
    Arguments: `tool` X, `reads` (the tools Y), `situation` unless it is always.
    """

    name = "unread_prerequisite"
    norm = 0.2
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every look that the policy wants before a writing tool."""
        proposals: dict[tuple[str, ...], Proposal] = {}
        for tool in sorted(corpus.agent_tools) if corpus.policy.text else []:
            if corpus.agent_tools[tool] < MIN_USES:
                continue
            reads = corpus.reading & corpus.agent_tools.keys() - {tool}
            writes = corpus.mutating & corpus.agent_tools.keys() if tool in corpus.mutating else ()
            given = corpus.arguments_of(tool)
            looks = looks_before(corpus.policy, tool, reads, given, writes)
            if tool in corpus.mutating:  # what nobody ever calls is wanted all the same
                said = {step.sentence for step in looks}
                unmade = looks_before(
                    corpus.policy, tool, corpus.unmade - corpus.unmade_writes, given, corpus.unmade_writes
                )
                looks += [step for step in unmade if step.sentence not in said]
            else:  # one look before another is wanted only where the policy calls the tool by its name
                looks = [step for step in looks if any(one.lower() in step.sentence for one in step.reads)]
            looks += listed_before(corpus.policy, tool, corpus.agent_tools.keys() | corpus.unmade)
            for step in looks:
                wanted = sorted(step.reads)
                situation = _where_looked(corpus, tool, wanted, step.sentence)
                where = f" {in_words(situation)}" if situation else ""
                one = Proposal(
                    args={"tool": tool, "reads": wanted, **({"situation": situation} if situation else {})},
                    name=f"{title(imperative(wanted[0]))} before {gerund(tool)}{where}",
                    description=(
                        f"Before '{spoken(tool)}', call '{spoken(wanted[0])}' and act on what it shows: "
                        f"'{step.sentence}'"
                    ),
                    subject=(tool, *wanted),
                    never=corpus.unmade.issuperset(wanted),
                )
                proposals.setdefault(one.subject, one)
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        reads = strings(args["reads"])
        looked = _looks(transcript, reads)
        shown: list[int] = []
        for step in transcript.own_calls(args["tool"], ok=True):
            if not holds(args.get("situation", ALWAYS), transcript, step):
                continue
            before = [at for at in looked if at < step.index]
            if not before:
                return lacking(f"{step.tool} was called without {' or '.join(reads)} before", step.index)
            shown += [before[-1], step.index]
        return present(f"{reads[0]} came before {args['tool']}", *shown) if shown else NOT_NEEDED


def _looks(transcript: Transcript, reads: Collection[str]) -> list[int]:
    """Return where looks of the agent ended."""
    own = (step for step in transcript.steps if step.tool in reads and not step.by_user)
    return [step.end for step in own if not step.failed]


def _where_looked(corpus: Corpus, tool: str, reads: list[str], sentence: str) -> dict[str, Any]:
    """Return the situation in which alone runs look before a call; empty where none tells."""

    def did(one: Transcript, step: Step) -> bool:
        return any(at < step.index for at in _looks(one, reads))

    calls = [(one, step) for one in corpus.transcripts for step in one.own_calls(tool, ok=True)]
    found = situation_of(calls, did, sentence, tool, look=reads[0], now=corpus.now)
    return dict(found or ALWAYS)


class WriteWithoutRead:
    """The writing tool X is called on an object before the reading tool Y was called on the same object.

    Where no argument of X has identifiers, what X and an earlier Y are both given is the object: an address,
    a person, a service. Relevant when X was called, or when the user asked for what X does (a cue word) and Y
    was called: looking first and then rightly not writing exercises the capability too.
    Arguments: `tool` X, `read` Y, `argument` of X that names the object, `cues`.
    """

    name = "write_without_read"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair each writing tool with the reads that are made of the same kind of object."""
        proposals = []
        pairs = [
            (tool, argument, self._read_of(corpus, tool, argument))
            for tool, argument in corpus.object_writes(MIN_USES)
        ]
        known = {tool for tool, _, _ in pairs}
        pairs += [
            (tool, argument, reads)
            for tool in sorted(corpus.mutating & corpus.agent_tools.keys() - known)
            for argument, reads in _shared(corpus, tool).items()
        ]
        for tool, argument, reads in pairs:
            for read in sorted(read for read, count in reads.items() if count >= MIN_USES):
                thing = noun(argument)
                proposals.append(
                    Proposal(
                        args={"tool": tool, "read": read, "argument": argument, "cues": corpus.cues(tool)},
                        name=f"{title(look(read, thing))} before {gerund(tool)}",
                        description=(
                            f"Before changing anything with '{spoken(tool)}', look at the same {thing} with "
                            f"'{spoken(read)}', so that what is done rests on how it really stands."
                        ),
                        subject=(tool, read),
                    )
                )
        return proposals

    def _read_of(self, corpus: Corpus, tool: str, argument: str) -> Mapping[str, int]:
        """Return in how many trajectories each reading tool looks at what a tool is called on."""
        reads = Counter[str]()
        for one in corpus.transcripts:
            for name in {normal(step.given.get(argument)) for step in one.calls(tool)}:
                reads.update({s.tool for s in one.steps if name in s.objects and s.tool in corpus.reading})
        return reads

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        reads = transcript.own_calls(args["read"], ok=True)
        shown: list[int] = []
        for step in transcript.own_calls(args["tool"]):
            name = normal(step.given.get(args["argument"]))
            before = [read.index for read in reads if read.end < step.index and read.is_about(name)]
            if not before:
                return lacking(f"{step.tool} was called on {name} without {args['read']} before", step.index)
            shown += [before[-1], step.index]
        if shown:
            return present(f"{args['read']} came before each {args['tool']}", *shown)
        asked = transcript.cue(args.get("cues"))
        about = transcript.asked_about(args.get("cues")) if asked is not None else None
        looked = [step.index for step in reads if about is None or about & step.objects]
        if asked is not None and looked:
            return present(f"asked for, looked up, and {args['tool']} was not called", asked, looked[0])
        return NOT_NEEDED


SHORTEST = 3
"""Letters of a value from which two calls that are given it are about the same thing."""


def _shared(corpus: Corpus, tool: str) -> dict[str, dict[str, int]]:
    """Return what an earlier look and a write without identifiers are both given.

    Returns:
        Argument of the write -> reading tool -> trajectories in which it was given the same before. A look
        stands under one argument alone, that which it shares most often, and with most values.
    """
    runs: dict[str, dict[str, set[int]]] = {}
    values: dict[tuple[str, str], set[str]] = {}
    for number, one in enumerate(corpus.transcripts):
        for step in one.own_calls(tool):
            for argument, value in step.given.items():
                name = normal(value) if isinstance(value, str) else ""
                for read in one.steps if len(name) >= SHORTEST else ():
                    if read.tool in corpus.reading and read.end < step.index and read.is_about(name):
                        looked = runs.setdefault(read.tool, {}).setdefault(argument, set())
                        looked.add(number)
                        values.setdefault((read.tool, argument), set()).add(name)
    shared: dict[str, dict[str, int]] = {}
    for read_tool, arguments in sorted(runs.items()):
        best = max(arguments, key=lambda one: (len(arguments[one]), len(values[read_tool, one])))
        if len(values[read_tool, best]) >= MIN_USES:  # what is always alike is no object
            shared.setdefault(best, {})[read_tool] = len(arguments[best])
    return shared


MIN_CHECKS = 4
EVERYWHERE = 0.95
"""A read that this share of trajectories makes anyway is no matter of the request."""


class SkippedCheck:
    """The user speaks of what a reading tool alone shows (a cue word), and it was never called.

    Cues are words of the tool's name that no other tool has: a word that merely goes with the call, such as
    a name or a place, obliges nobody to look. Relevant when a cue word was said. Arguments: `tool`, `cues`.
    """

    name = "skipped_check"
    norm = 0.75
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every reading tool that some words of the user ask for."""
        proposals = []
        for tool in sorted(corpus.reading):
            count = corpus.tools[tool]
            if count < MIN_CHECKS or count > EVERYWHERE * len(corpus.transcripts):
                continue
            if cues := corpus.own_words(tool, corpus.cues(tool)):
                proposals.append(
                    Proposal(
                        args={"tool": tool, "cues": cues},
                        name=f"{title(imperative(tool))} when the user speaks of '{cues[0]}'",
                        description=(
                            f"When the user speaks of {', '.join(cues[:3])}, use '{spoken(tool)}' (or have "
                            "it used) before concluding."
                        ),
                        subject=(tool,),
                    )
                )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        asked = transcript.cue(args["cues"])
        if asked is None:
            return NOT_NEEDED
        made = transcript.calls(args["tool"], ok=True)
        if made:
            return present(f"{args['tool']} was called", asked, made[0].index)
        return lacking(f"{args['tool']} was never called", asked, transcript.last_of_agent())


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
_IN_ALL = ("next", "nuat", "cur", "more", "trun")
"""Whatever it says, one of these is a part of it; without `s` and `i`, which have other forms in capitals."""
_ROWS_OF = re.compile(
    r"\b(?:rows?|results?|items?|entries|records|showing|lines?|hits) \d+ ?(?:-|\u2013|to) ?(\d+) "
    r"(?:of|/) ?(\d+)\b",
    re.IGNORECASE,
)
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
            paged = sorted(name for name in corpus.arguments_of(tool) if _PAGED.fullmatch(name.lower()))
            if parted:
                proposals.append(
                    Proposal(
                        args={"tool": tool, "paged": paged} if paged else {"tool": tool},
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
        steps = transcript.own_calls(args["tool"], ok=True)
        parts = [place for place, step in enumerate(steps) if goes_on(step.result)]
        if not parts:
            return NOT_NEEDED
        last = steps[parts[-1]]
        paged = set(strings(args.get("paged", ())))
        if not any(_reads_on(last, step, paged) for step in steps[parts[-1] + 1 :][: None if paged else 1]):
            return lacking(f"{last.tool} showed that there is more, which was never read", last.end)
        return present("what was left of a list was read", last.end, steps[parts[-1] + 1].index)


_PAGED = re.compile(
    r"(?:next_?|start_?)?(?:page|offset|cursor|skip|page_?(?:token|number|no|index|size)|limit|per_?page|row)s?"
)
"""Arguments that say which part of a list is wanted."""


def _reads_on(last: Step, step: Step, paged: Collection[str]) -> bool:
    """Tell whether a call asks for another part of the list that an earlier one began to show.

    Where the tool is given which part is wanted, that must be another one: another search reads nothing on.
    """
    if not paged or any(_PAGE_IN.search(str(value)) for value in step.given.values()):
        return step.arguments != last.arguments
    return any(step.given.get(name) != last.given.get(name) for name in paged)


_PAGE_IN = re.compile(r"[?&](?:page|offset|cursor|after|start|skip|page_?token)=", re.IGNORECASE)
"""An address that says which part is wanted."""


def goes_on(text: str) -> bool:
    """Tell whether a result says that there is more of it than it shows.

    >>> [goes_on(one) for one in ('{"items": [], "next": "c5"}', '{"items": [], "next": null}')]
    [True, False]
    >>> goes_on("page 1 of 3"), goes_on("page 3 of 3"), goes_on("(40 more lines below)")
    (True, False, True)
    >>> goes_on("(rows 1-12 of 31)"), goes_on("showing 1-3 of 3")
    (True, False)
    >>> goes_on('{"link": [{"relation": "next", "url": "http://a.example/p?page=2"}]}')
    True
    """
    lowered = text.lower()
    if found := ("page " in lowered and _PAGE_OF.search(text)) or _ROWS_OF.search(text):
        return int(found[1]) < int(found[2])
    return any(part in lowered for part in _IN_ALL) and _GOES_ON.search(text) is not None


MIN_TASKS = 8
"""Tasks with a writing tool from which it has its own instance."""
LOOKED = 0.8
"""Share of these in which a look mostly follows."""


TESTED = 0.5
"""Share of the tasks with an edit in which tests mostly follow the last one."""


class UnverifiedWrite:
    """After the last successful write, no reading tool is called before the conversation ends.

    Relevant when something was written. Handing the conversation over is no change to be verified. Who edits
    files and runs tests has to run them after the last edit: a look at what was written tells nothing.
    Arguments: `writes`, `reads` (tool names).
    """

    name = "unverified_write"
    norm = 0.7
    mistake: Mistake = "unverified_result"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when there are tools of both kinds."""
        writes = sorted(tool for tool in corpus.mutating if not hands_over(tool))
        if not writes or not corpus.reading:
            return []
        every = Proposal(
            args={"writes": writes, "reads": sorted(corpus.reading)},
            name="Check the result after the last change",
            description=(
                "After changing something, look again whether it had the wanted effect before telling "
                "the user that all is well or ending the conversation."
            ),
        )
        tested = self._tested(corpus)
        each = [tool for tool in writes if not (tested and tool in corpus.edits)]
        after = [self._after(tool, corpus) for tool in each if self._is_looked_after(tool, corpus)]
        return [every, *after, *tested]

    def _tested(self, corpus: Corpus) -> list[Proposal]:
        edits, tests = corpus.edits, corpus.tests
        runs = sorted({*tests, *corpus.runs})
        if not edits or not tests or not self._is_followed(edits, runs, corpus, TESTED):
            return []
        return [
            Proposal(
                args={"writes": edits, "reads": runs},
                name=f"{title(imperative(tests[0]))} after {gerund(edits[0])}",
                description=(
                    f"After the last '{spoken(edits[0])}', use '{spoken(tests[0])}', and go on until it "
                    "succeeds, before saying that it is done or ending."
                ),
                subject=(edits[0], tests[0]),
            )
        ]

    def _after(self, tool: str, corpus: Corpus) -> Proposal:
        return Proposal(
            args={"writes": [tool], "reads": sorted(corpus.reading)},
            name=f"Check the result after {gerund(tool)}",
            description=(
                f"After the last '{spoken(tool)}', look again whether it had the wanted effect before going "
                "on to the end."
            ),
            subject=(tool,),
        )

    def _is_looked_after(self, tool: str, corpus: Corpus) -> bool:
        """Tell whether a look follows a write in most tasks, where other writes are not looked after."""
        return self._is_followed([tool], corpus.reading, corpus, LOOKED)

    def _is_followed(
        self, writes: Collection[str], reads: Collection[str], corpus: Corpus, share: float
    ) -> bool:
        used, looked = set[str](), set[str]()
        for one in corpus.transcripts:
            ends = [step.end for step in one.steps if step.tool in writes and not step.failed]
            if not ends:
                continue
            used.add(one.task_id)
            if any(step.index > ends[-1] and step.tool in reads for step in one.steps):
                looked.add(one.task_id)
        return len(used) >= MIN_TASKS and len(looked) >= share * len(used)

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes, reads = set(strings(args["writes"])), set(strings(args["reads"]))
        written = [step for step in transcript.steps if step.tool in writes and not step.failed]
        if not written:
            return NOT_NEEDED
        last = written[-1]
        after = [step.index for step in transcript.steps if step.tool in reads and step.index > last.index]
        if after:
            return present("looked again after the last change", last.index, after[0])
        return lacking(f"nothing was looked at after {last.tool}", last.index, transcript.last_of_agent())
