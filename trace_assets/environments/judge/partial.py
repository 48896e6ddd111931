"""What an oracle's own path does not show: whether half the capability is paid, and whether records agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trace_assets.diagnosis.llm.request import Answer
from trace_assets.environments.audit.check import AuditCheck, Finding, Judge, NotJudged, Subject
from trace_assets.environments.audit.scripted_rollouts import Played
from trace_assets.environments.judge.asking import (
    about_episodes,
    asked,
    by_model,
    elsewhere,
    further_looks_of,
    is_paid,
    played,
    shown_of,
)
from trace_assets.environments.judge.looks import (
    Difference,
    differences,
    looks_of,
    shown_look,
)
from trace_assets.environments.judge.material import (
    Episode,
    EpisodeNumber,
    JudgeQuestion,
    Material,
    Said,
    Steps,
    Unplayable,
    quoted,
    render,
    script_of,
    transcript,
)
from trace_assets.environments.judge.review import claims_against
from trace_assets.environments.judge.solutions import calls_of

WAYS = 3
"""Ways of having only a part of the capability."""
LEAST_PLAYED = 0.75
"""Share of the episodes in which a way must be playable before it says anything."""
MOST_OTHER = 0.5
"""Share of episodes with the oracle's own deeds above which a way is one of many rules that lead to these."""
SHOWN = 4
"""Episodes of a way that is paid which whoever judges it is shown."""


_FACT = re.compile(r"[\w#.,:/-]*\d[\w.,:/-]*")


class PartPlay(Answer):
    """What an agent with a part of the capability does in one episode."""

    episode: EpisodeNumber
    as_oracle: bool
    steps: Steps


class Way(Answer):
    """One rule of behaviour, in all episodes."""

    way: str
    plays: list[PartPlay]


class Ways(Answer):
    """Ways of having only a part of the capability."""

    ways: list[Way]


class Shortfall(Answer):
    """Whether a rule of behaviour is the capability."""

    why: str
    follows: Said
    has: Said
    quote: str


class Differing(Answer):
    """Whether records that differ contradict each other."""

    why: str
    contradiction: Said


def partly_question(material: Material, looks: Sequence[tuple[int, str]], model: str) -> JudgeQuestion[Ways]:
    """Return the question for ways of having only a part of the capability.

    Args:
        material: Of the environment.
        looks: Number of an episode, and what further looks in it show.
        model: Who is asked.
    """
    return _ways_question("partly", material, WAYS, model, looks=looks)


def elsewhere_question(material: Material, way: str, model: str) -> JudgeQuestion[Ways]:
    """Return the question what a way of behaving leads to in other episodes.

    Args:
        material: With these episodes.
        way: The rule.
        model: Who is asked.
    """
    return _ways_question("elsewhere", material, 1, model, way=way)


def _ways_question(
    kind: Literal["partly", "elsewhere"],
    material: Material,
    ways: int,
    model: str,
    **values: object,
) -> JudgeQuestion[Ways]:
    numbers = [one.number for one in material.episodes]

    def mend(given: Ways) -> Ways:
        mended = []
        for one in given.ways:
            plays = {play.episode: play for play in one.plays if play.episode in numbers}
            mended.append(Way(way=one.way, plays=[plays[number] for number in numbers if number in plays]))
        return Ways(ways=mended[:ways])

    def examine(given: Ways) -> list[str]:
        wrong = [] if len(given.ways) == ways else [f"there are {len(given.ways)} ways, not {ways}"]
        for place, one in enumerate(given.ways, start=1):
            there = {play.episode for play in one.plays}
            wrong += [f"way {place}: episode {n} is not among its plays" for n in numbers if n not in there]
            for play in one.plays:
                try:
                    if not play.as_oracle:
                        script_of(play.steps)
                except Unplayable as why:
                    wrong.append(f"way {place}, episode {play.episode}: {why}")
        return wrong

    return JudgeQuestion(
        kind=kind,
        model=model,
        system=about_episodes(material),
        user=render(f"{kind}.md", episodes=numbers, steps=render("steps.md"), **values),
        schema=Ways,
        examine=examine,
        mend=mend,
    )


@by_model
def partly(subject: Subject, judge: Judge) -> Finding:
    """Agents with a part of the capability, or the look of it, as a model writes them, are not always paid.

    A way that is paid in every episode counts where the model, shown that way and what it does and not what
    is paid, says that it falls short of the capability, and quotes of what. Other words for the same deeds
    and facts never count. A rule that leads to the oracle's own deeds is easily made up once these were seen,
    and most environments have one: it counts only where a reviewer, unasked, accuses the environment of
    paying such agents, and where it is paid in other episodes too.
    """
    material = shown_of(subject)
    bound, said, open_ones, most, tried = "no such way is paid in every episode", list[str](), [], 0.0, 0
    accused = bool(claims_against(subject, judge, "capability", "lack_unpaid", "untold"))
    for way in _ways(subject, judge):
        games = _games(subject, material, way)
        if not _mostly_played(games, material):
            continue
        tried += 1
        share = _paid_share(games)
        most = max(most, share)
        if share < 1 or _in_words_alone(games):
            continue
        like = _like_the_oracle(games)
        if like and not accused:
            said.append(f"a rule that leads to the oracle's own deeds: {way.way}")
            continue
        try:
            verdict = _tried(subject, judge, way, games, elsewhere_too=like)
        except NotJudged as error:
            open_ones.append(f"{way.way}: {error}")
            continue
        if verdict.against:
            return Finding("fail", f"{verdict.why}: {way.way}", 1.0, verdict.n, bound)
        said.append(f"{verdict.why}: {way.way}")
    if open_ones:
        return Finding("skip", f"a way that is paid in every episode stays open, {open_ones[0]}", bound=bound)
    if not tried:
        return Finding("skip", "none of the ways could be played")
    words = "; ".join([f"{tried} ways tried, the best is paid in {most:.0%}", *said])
    return Finding("pass", words, most, len(material.episodes), bound)


@dataclass(frozen=True)
class _Trial:
    against: bool
    why: str
    n: int = 0


def _tried(
    subject: Subject,
    judge: Judge,
    way: Way,
    games: Sequence[tuple[Episode, Played]],
    *,
    elsewhere_too: bool,
) -> _Trial:
    """Return whether a way that is paid in every episode that was shown speaks against the environment.

    Raises:
        NotJudged: It cannot be told.
    """
    material = shown_of(subject)
    found = _falls_short(subject, judge, way, [game for _, game in games])
    if found.has == "yes":
        return _Trial(False, "paid, and no lack")
    if found.follows == "no":
        return _Trial(False, "paid, but not by the rule alone")
    if (found.follows, found.has) != ("yes", "no"):
        raise NotJudged("the model cannot tell whether that is the capability")
    if not quoted(found.quote, f"{material.name}\n{material.description}"):
        return _Trial(False, "paid, and a lack of something else")
    n = len(games)
    if elsewhere_too:
        others = elsewhere(subject)
        if others is None:
            raise NotJudged("there are no other episodes to try it in")
        plays = asked(subject, judge, elsewhere_question(others, way.way, judge.model)).ways[0]
        again = _games(subject, others, plays)
        if not _mostly_played(again, others):
            raise NotJudged("it could not be played in other episodes")
        if _paid_share(again) < 1:
            return _Trial(False, f"paid, but elsewhere in {_paid_share(again):.0%} alone")
        n += len(again)
    return _Trial(True, f'paid in all of {n} episodes ({found.why} Asked for: "{found.quote}")', n)


def _mostly_played(games: Sequence[object], material: Material) -> bool:
    return len(games) >= max(2, LEAST_PLAYED * len(material.episodes))


def _paid_share(games: Sequence[tuple[Episode, Played]]) -> float:
    return sum(is_paid(game, one.best) for one, game in games) / len(games)


def _like_the_oracle(games: Sequence[tuple[Episode, Played]]) -> bool:
    """Tell whether an agent does what the oracle does, word by word or in deeds, in most episodes."""
    same = sum(
        calls_of(game) == calls_of(one.best) and _facts(one.best) <= _facts(game) for one, game in games
    )
    return same > len(games) * MOST_OTHER


def _in_words_alone(games: Sequence[tuple[Episode, Played]]) -> bool:
    """Tell whether an agent differs from the oracle in its words alone, and leaves no fact out of them."""
    other_words = False
    for one, game in games:
        if calls_of(game) != calls_of(one.best) or not _facts(one.best) <= _facts(game):
            return False
        other_words |= _words(game) != _words(one.best)
    return other_words


def _words(one: Played) -> list[str]:
    return [str(action.get("content") or "") for action in one.actions]


def _facts(one: Played) -> set[str]:
    """Return the numbers and names of things that an agent says."""
    return {fact.strip(".,:-") for text in _words(one) for fact in _FACT.findall(text)}


def _ways(subject: Subject, judge: Judge) -> list[Way]:
    material = shown_of(subject)
    looks = further_looks_of(subject)
    shown = [(one.number, "\n".join(map(shown_look, more))) for one, more in looks if more]
    return asked(subject, judge, partly_question(material, shown, judge.model)).ways


def _games(subject: Subject, material: Material, way: Way) -> list[tuple[Episode, Played]]:
    plays = {one.episode: one for one in way.plays}
    found = []
    for episode in material.episodes:
        play = plays[episode.number]
        try:
            game = episode.best if play.as_oracle else played(subject, episode, play.steps)
        except Unplayable:
            continue
        found.append((episode, game))
    return found


def _falls_short(subject: Subject, judge: Judge, way: Way, games: Sequence[Played]) -> Shortfall:
    material = shown_of(subject)
    with_system = not material.policy
    about = f"{material.policy}\n{material.name}\n{material.description}"

    def examine(given: Shortfall) -> list[str]:
        if (
            given.has == "no"
            and given.follows == "yes"
            and material.policy
            and not quoted(given.quote, about)
        ):
            return ["`quote` is not copied letter by letter from the capability or the policy"]
        return []

    question = JudgeQuestion(
        kind="shortfall",
        model=judge.model,
        system=render("shortfall.md", shared=material.shared()),
        user=render(
            "shortfall_ask.md",
            way=way.way,
            episodes=[transcript(one, with_system=with_system) for one in games[:SHOWN]],
        ),
        schema=Shortfall,
        examine=examine,
    )
    return asked(subject, judge, question)


@by_model
def coherent(subject: Subject, judge: Judge) -> Finding:
    """Where two looks show different values of one thing, a model finds a good reason for it.

    What differs is found by program, in the oracle's looks and further ones. Where nothing does, nobody is
    asked.
    """
    material = shown_of(subject)
    bound = "no records that contradict each other"
    found: dict[tuple[str, ...], Difference] = {}
    shown: Episode | None = None
    for one, more in further_looks_of(subject):
        for row in differences(subject.probe, [*looks_of(subject.probe, one.best), *more]):
            found.setdefault(row.kind, row)
            shown = shown or one
    n = len(material.episodes)
    if shown is None:
        return Finding("pass", "no two looks differ in what they show of one thing", 0.0, n, bound)
    question = JudgeQuestion(
        kind="differing",
        model=judge.model,
        system=render("differing.md", shared=material.shared()),
        user=render("differing_ask.md", differences=list(found.values()), text=shown.text),
        schema=Differing,
    )
    answer = asked(subject, judge, question)
    words = f"{'; '.join(map(str, found.values()))}: {answer.why}"
    value = float(len(found))
    if answer.contradiction == "cannot_tell":
        return Finding("skip", f"the model cannot tell whether it matters: {words}", value, n, bound)
    return Finding("fail" if answer.contradiction == "yes" else "pass", words, value, n, bound)


PARTIAL_CHECKS = (
    AuditCheck("trace.judge.partly", "judged", partly, ("semantic.floor_gap",)),
    AuditCheck("trace.judge.coherent", "judged", coherent, ("semantic.floor_gap",)),
)
