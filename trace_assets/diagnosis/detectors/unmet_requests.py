"""What a request asks for or rules out: a part that nobody came back to, changes that were not wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over, leaves_words
from trace_assets.diagnosis.detectors.protocol import (
    NOT_NEEDED,
    Finding,
    Mistake,
    Proposal,
    is_lacked,
    lacking,
    present,
)
from trace_assets.diagnosis.detectors.shell import FILE_DEEDS, READ, command_line, deleted_by, names_file
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves, strings
from trace_assets.diagnosis.detectors.verbs import (
    ELSEWHERE,
    NOUNS,
    WORD,
    has_stem,
    same_verb,
    spoken,
    things,
    verb_of,
)
from trace_assets.diagnosis.detectors.wording import imperative, title

MIN_USES = 1
"""Runs that must use a tool for words of the user to ask for it."""
# English only: other languages give NA.
_CLAUSE = re.compile(r"[.?!;:,\n]+|\b(?:and|but) (?=(?:can|could|would|will|i|we|please|also|when|then)\b)")
_WANTS = re.compile(
    r"\b(?:please|pls|can|could|would|will have to|must|needs? to|need|wants?|like to|like you to|"
    r"ha(?:ve|s) to|should|let's|i'd like|go ahead|kindly)\b"
)
_OPEN = re.compile(
    r"\b(?:don't|do not|didn't|did not|never|not|if|whether|already|was|were|has been|have been|had|why|"
    r"when (?:do|does|did|will)|how (?:much|many|long|do|does))\b"
)
_SHORTEST = 5
"""Letters of a word that names a deed so that it is told by its beginning."""
_DELETES = re.compile(r"(?:delete|remove|rm|unlink)\b")
_SCRATCH = re.compile(r"\A/tmp/|\*|\$|__pycache__|\.pyc\Z|(?:\A|/)\.\w+_cache\b|\A/dev/")
"""What a build or a test run leaves, patterns, and what cannot be told from the line alone."""
_WORD = re.compile(r"[\w@./-]+")


class RequestLeftUnmentioned:
    """The user asks for what a writing tool does, in its own words, and nobody comes back to it.

    The tool was never called, and no message of the agent has a form of that word or of its like: what was
    refused, put off or handed over has been spoken of. Relevant when the user asked so. Arguments: `tool`,
    `words` that ask for it and for no other tool.
    """

    name = "request_left_unmentioned"
    norm = 0.8
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool with words of its own."""
        writes = [
            tool
            for tool in sorted(corpus.mutating & corpus.agent_tools.keys())
            if corpus.agent_tools[tool] >= MIN_USES and not hands_over(tool) and not leaves_words(tool)
        ]
        return [
            Proposal(
                args={"tool": tool, "words": words},
                name=f"{title(imperative(tool))} when the request asks for it, or say why not",
                description=(
                    f"When the user asks for what '{spoken(tool)}' does beside something else, do it too, or "
                    "say what becomes of it, before ending."
                ),
                subject=(tool,),
            )
            for tool in writes
            if (words := _own_words(tool, corpus))
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        words = strings(args["words"])
        asked = next(_asked(transcript, words), None)
        if asked is None:
            return NOT_NEEDED
        if made := transcript.calls(args["tool"]):
            return present("it was asked for and tried", asked, made[0].index)
        for index, message in enumerate(transcript.messages):
            if message.role == "assistant" and _says(transcript.words_in(index), words):
                return present("it was asked for and spoken of", asked, index)
        why = f"{args['tool']} was asked for, never called, and no message came back to it"
        return lacking(why, asked, transcript.last_of_agent())


def _own_words(tool: str, corpus: Corpus) -> list[str]:
    """Return the words by which a tool's deed is asked for and no other tool's: its verb, its thing."""
    others = [other for other in corpus.tools if other != tool]
    verb = verb_of(tool)
    found = []
    shared = any(same_verb(verb, word) for other in others for word in spoken(other).split())
    if len(verb) >= _SHORTEST and not shared and verb not in NOUNS | ELSEWHERE | _SAYS_NOTHING:
        found.append(verb)
    for thing in things(tool):
        shared = any(has_stem(spoken(other).split(), thing) for other in others)
        if len(thing) >= _SHORTEST and not shared and thing not in _PEOPLE:
            found.append(thing)
    return found


_SAYS_NOTHING = frozenset({"create", "change", "apply", "enter", "start", "record", "update", "submit"})
_PEOPLE = frozenset(
    {"customer", "client", "member", "patient", "owner", "guest", "agent", "number", "details"}
)
"""Things of tools' names that any request speaks of."""


def _asked(transcript: Transcript, words: list[str]) -> Iterator[int]:
    for index, clause in transcript.once(("wishes",), lambda: _wishes(transcript)):
        for found in WORD.finditer(clause):
            if _says((found[0],), words) and not _OPEN.search(clause[: found.start()]):
                yield index


def _wishes(transcript: Transcript) -> list[tuple[int, str]]:
    """Return the clauses in which the user wants something, lower case, each with its message."""
    return [
        (index, clause)
        for index, message in enumerate(transcript.messages)
        if message.role == "user"
        for clause in _CLAUSE.split(transcript.lowered[index])
        if _WANTS.search(clause)
    ]


def _says(said: Iterable[str], words: list[str]) -> bool:
    return any(same_verb(one, word) or _begins_alike(word, one) for word in said for one in words)


@lru_cache(maxsize=1 << 14)  # the same words are said in all runs
def _begins_alike(word: str, wanted: str) -> bool:
    return has_stem([word], wanted)


_LOOK_ONLY = re.compile(
    r"\b(?:review|read|look|check|report|information|info|query|advice|draft|view|analysis)[- ]only\b|"
    r"\b(?:dry[- ]run|no changes?,? please|without (?:changing|posting|sending|doing) any(?:thing)?)\b|"
    r"\b(?:do not|don't|please don't) (?:change|post|send|book|cancel|touch|modify|update|submit|execute|act|"
    r"do) (?:anything|any of|it yet|them yet|yet|a thing)\b|"
    r"\b(?:just|only) (?:want(?:ed)? to|need to|asking to|like to) (?:know|ask|see|check|understand)\b"
)
"""How a request says that nothing is to be changed."""


_TELLS = frozenset(
    {"notify", "send", "message", "email", "mail", "reply", "report", "inform", "post", "note"}
)
"""Verbs of tools by which an answer may be given: a word changes nothing."""


class ChangeAgainstRequest:
    """The request says that nothing is to be changed (`review only`, `dry run`), and something was.

    A later message of the user may ask for a change after all. Relevant when the request says so. Arguments:
    `writes` (the writing tools).
    """

    name = "change_against_request"
    norm = 0.8
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where some request says so and the agent can change something."""
        used = sorted(corpus.mutating & corpus.agent_tools.keys())
        writes = [tool for tool in used if verb_of(tool) not in _TELLS and not hands_over(tool)]
        if not writes or not any(_LOOK_ONLY.search(one.asked) for one in corpus.transcripts):
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Change nothing when the request is to look only",
                description=(
                    "When a request says that it is for information, review or a trial run, look, answer, "
                    "and leave everything as it is."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        said = [
            index
            for index, message in enumerate(transcript.messages)
            if message.role == "user" and _LOOK_ONLY.search(transcript.lowered[index])
        ]
        if not said:
            return NOT_NEEDED
        writes = set(strings(args["writes"]))
        later = [
            index
            for index, message in enumerate(transcript.messages)
            if message.role == "user" and message.content and index > said[-1]
        ]
        until = later[0] if later else len(transcript.messages)
        for step in transcript.steps:
            if step.tool in writes and not step.failed and not step.by_user and said[-1] < step.index < until:
                return lacking(f"{step.tool} was called, and nothing was to be changed", said[-1], step.index)
        return present("it was left at looking", said[-1])


class UnaskedDeletion:
    """The agent deletes what the user named, and beside it a file or folder that nobody named.

    What the agent made itself in the run and what builds leave may go. Relevant when something was deleted
    that the user named: only then is it known what was to go. No arguments.
    """

    name = "unasked_deletion"
    norm = 0.7
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when some run deletes what nobody named."""
        if not is_lacked(self, corpus):
            return []
        return [
            Proposal(
                args={},
                name="Delete only what the user asked to have deleted",
                description=(
                    "Delete the files and folders that the request names and nothing beside them, but for "
                    "what was made in the run itself; ask, or leave it."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        asked = [word.rstrip(".,/") for word in _WORD.findall(transcript.asked)]
        gone = [
            (path.rstrip("/").lower(), step.index)
            for step in transcript.steps
            if not (step.failed or step.by_user)
            for path in _deleted(step)
            if not _SCRATCH.search(path)
        ]
        names = {_last(word) for word in asked}
        wanted = [(path, at) for path, at in gone if _last(path) in names]
        if not wanted:
            return NOT_NEEDED
        folders = {word for word in asked if not any(_within(path, word) for path, _ in wanted)}
        for path, at in gone:
            if (path, at) in wanted or any(path == one or _within(path, one) for one in folders):
                continue
            if not _made(transcript, _last(path), at):
                return lacking(f"{path} was deleted, and nobody had named it", at)
        return present("only what was named was deleted", *(at for _, at in wanted))


def _deleted(step: Step) -> Iterator[str]:
    yield from deleted_by(command_line(step.arguments))
    if _DELETES.match(spoken(step.tool)) and names_file(step.given):
        yield from (str(value) for _, value in leaves(step.arguments) if names_file({"": value}))


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _within(path: str, folder: str) -> bool:
    return bool(folder) and f"/{path}".find(f"/{folder.strip('/')}/") >= 0


def _made(transcript: Transcript, name: str, before: int) -> bool:
    """Tell whether the agent wrote a file of that name, or made a folder of it, earlier in the run."""
    return any(
        step.index < before and not step.failed and name in str(step.arguments).lower()
        for step in transcript.steps
        if step.tool in FILE_DEEDS - {READ}
        or re.search(r"\b(?:create|write|mkdir|touch|cp|mv|clone)\b", spoken(step.tool))
    )
