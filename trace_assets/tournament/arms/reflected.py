"""Prompt optimisation: do words found by reading episodes do what training does, at equal rollouts?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_assets.diagnosis.llm.budget import open_account, read_calls, totals
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.request import Answer, Question, render
from trace_assets.errors import require_extra
from trace_assets.policies.protocol import Place
from trace_assets.records import Task
from trace_assets.resources.analysts import analyst_section
from trace_assets.store import Home, Store
from trace_assets.store.content import text_version
from trace_assets.store.files import make_folder, write_text
from trace_assets.targets.embedded.generator import COURTESIES, HINTS
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.tournament.arms.placebo import advised, unread
from trace_assets.tournament.arms.protocol import VERDICTS, Made, PlayedWorld, metered
from trace_assets.tournament.arms.word_search import (
    Feedback,
    ListedWords,
    Writer,
    fewest_rollouts,
    search,
    split,
    told,
)

if TYPE_CHECKING:
    from trace_assets.training.episodes import Player


# A model that reads an agent's episodes and writes words under which it may pass more of them.


LONGEST = 20_000
"""Characters of an answer: words are read in every episode."""
SILENT = 3
"""Questions in a row without a usable answer, after which no further one is asked."""


class NewWords(Answer):
    """What the agent shall be told."""

    words: str


class ModelWords:
    """Asks a model for each proposal.

    Args:
        server: Whom.
        model: Its name there.
        policy: Rules that the agent is given anyway.
    """

    def __init__(self, server: ModelServer, model: str, policy: str) -> None:
        self._server, self._model = server, model
        self._system = render("reflect.md", policy=policy)
        self._asked = self._silent = 0
        self._ended = ""

    @property
    def ended(self) -> str:
        """Why no further question is asked."""
        return self._ended

    def propose(self, told: str, episodes: Sequence[Mapping[str, Any]]) -> str:
        """Return the model's words, or the old ones where it gave none.

        Args:
            told: The words under which the episodes were played.
            episodes: Each with its `transcript` and `feedback`.

        Raises:
            TraceError: The server cannot be used.
        """
        self._asked += 1
        question = Question(
            kind="reflect",
            model=self._model,
            system=self._system,
            user=render("reflect_ask.md", told=told, episodes=episodes),
            schema=NewWords,
            temperature=1.0,
            seed=self._asked,
            examine=_complaints,
        )
        try:
            answer = self._server.ask_alone(question)
        except Unanswered as none:
            self._silent += 1
            if self._silent == SILENT:
                self._ended = f"the model gave no usable answer {SILENT} times in a row ({none.reason})"
            return told
        if answer is None:
            self._ended = "the cap of the section analyst was reached"
            return told
        self._silent = 0
        return answer.words.strip()


def _complaints(answer: NewWords) -> list[str]:
    if not answer.words.strip():
        return ["words is empty"]
    if len(answer.words) > LONGEST:
        return [f"words has {len(answer.words)} characters; {LONGEST} are the most"]
    return []


CHOSEN_ON = 64
"""Discovery tasks that words are compared on while they are searched, at most."""
FINALISTS = 4
"""Words that are compared on validation tasks, the best of the search and none at all beside them."""
_FOUND = "words.json"


class Gepa:
    """The base model, told words that GEPA has found from its episodes at the target.

    Args:
        feedback: What the search is told of an episode's end.
    """

    needs = "verdicts of the target, a model that reads what it is told, and one that reflects"

    def __init__(self, feedback: Feedback) -> None:
        self.name, self._feedback = f"gepa_{feedback}", feedback
        told = {"score": "what they were paid", "checks": "what they were paid and which checks failed"}
        self.about = (
            f"The base model, told words that GEPA found by reading its episodes and {told[feedback]}."
        )

    def refusal(self, world: PlayedWorld) -> str:
        """There is no budget or too small a one, the model reads no words, or nobody writes them."""
        if why := world.unfunded:
            return why
        _, chosen_on = split(world.study.target.tasks("discovery"), CHOSEN_ON)
        fewest = fewest_rollouts(len(chosen_on))
        if world.budget < fewest:
            return f"a search takes {fewest} rollouts at least, and the adapters had {world.budget}"
        if _listed(world):
            return ""
        if found := unread(world):
            return found
        settings = world.study.settings
        if not (settings.analyst.base_url or settings.analyst.recording) or not settings.discovery.model:
            return "no model is there to reflect: set analyst.base_url and discovery.model"
        return ""

    def play(self, world: PlayedWorld, folder: Path) -> Made:
        """Search on discovery tasks, choose on validation tasks, and play the test tasks."""
        require_extra("torch", "train", f"the arm {self.name}")
        require_extra("gepa", "gepa", f"the arm {self.name}")
        place: Place = "user" if _listed(world) else "system"
        meter = metered(folder, lambda: self._make(world, folder, place))
        found = json.loads((folder / _FOUND).read_bytes())
        words = str(found["words"])
        meter.dollars = _dollars(world, folder)
        maker = world.policy_maker({})
        rows = world.on_test(
            self.name,
            folder,
            text_version(place, words),
            maker=partial(advised, maker, words, place) if words else maker,
        )
        return Made(rows, meter.spent(len(rows)), str(found["note"]))

    def _make(self, world: PlayedWorld, folder: Path, place: Place) -> dict[str, float]:
        from trace_assets.training.grpo import calm

        target = world.study.target
        read, chosen_on = split(target.tasks("discovery"), CHOSEN_ON)
        with (
            calm(),
            world.base_player(target, folder / "sampler") as (policy, player),
            _writer(world, folder) as writer,
        ):
            found = search(
                player,
                read,
                chosen_on,
                writer,
                place=place,
                feedback=self._feedback,
                budget=world.budget,
                folder=folder / "search",
            )
            player.policy = policy
            finalists = list(dict.fromkeys(["", *found.words[:FINALISTS]]))
            choice = choose(player, finalists, place, world.compared_on(target))
        note = _note(choice, len(found.words), found.ended)
        make_folder(folder)
        write_text(folder / _FOUND, json.dumps({"words": choice.words, "note": note}) + "\n")
        spent = {"training": float(found.played), "checkpoint looks": float(choice.played)}
        return spent | {VERDICTS: sum(spent.values())}


@dataclass(frozen=True)
class Choice:
    """Words that were chosen on validation tasks.

    Attributes:
        words: Them; none at all where nothing was better.
        passed: Their pass rate there.
        untold: That of no words.
        played: Episodes that it took.
    """

    words: str
    passed: float
    untold: float
    played: int


def choose(player: Player, finalists: Sequence[str], place: Place, tasks: Sequence[Task]) -> Choice:
    """Compare words on the same episodes; of equals the earlier ones.

    Args:
        player: Its policy is told nothing.
        finalists: No words at all first.
        place: Where they stand.
        tasks: To compare on.
    """
    from trace_assets.training.validation import validate

    untold, rates = player.policy, list[float]()
    for words in finalists:
        player.policy = told(untold, words, place)
        rates.append(validate(player, tasks, "comparison of words").rate)
    player.policy = untold
    best = max(range(len(rates)), key=rates.__getitem__)
    return Choice(finalists[best], rates[best], rates[0], len(tasks) * len(finalists))


def _note(choice: Choice, kept: int, ended: str) -> str:
    told = (
        f"told {len(choice.words.split())} words, the best of {kept} that were kept on the way"
        if choice.words
        else f"told nothing: none of {kept} that were kept on the way was better on validation tasks"
    )
    end = f"; the search ended early, as {ended}" if ended else ""
    return f"{told} ({choice.passed:.0%} there, against {choice.untold:.0%} untold){end}"


def _listed(world: PlayedWorld) -> list[str]:
    """Return the closed list of sentences that a desk's agent can follow; none for any other agent."""
    target = world.study.target
    if isinstance(target, EmbeddedTarget) and target.options.hints:
        return list(dict.fromkeys([*HINTS.values(), *COURTESIES]))
    return []


@contextmanager
def _writer(world: PlayedWorld, folder: Path) -> Iterator[Writer]:
    """Open who proposes; what a model is paid is booked in a home of the arm's own."""
    study = world.study
    if listed := _listed(world):
        yield ListedWords(listed, study.settings.training.seed)
        return
    home = Home.open(folder / "home")
    section = analyst_section(study)
    with open_account(Store.of(home), home.answers, section, "tournament", "", "tournament") as account:
        server = ModelServer(section, Answers(home.answers), account)
        yield ModelWords(server, study.settings.discovery.model, study.target.policy)


def _dollars(world: PlayedWorld, folder: Path) -> float | None:
    """Return what reflection has cost, over all attempts; None where no price was told."""
    if _listed(world):
        return 0.0
    section = analyst_section(world.study)
    priced = section.prompt_usd or section.completion_usd or not section.base_url
    return totals(read_calls(Home.open(folder / "home").answers)).usd if priced else None
