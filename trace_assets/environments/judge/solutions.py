"""Solutions that a model writes down whole: of agents that lack the capability, and other right ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trace_assets.diagnosis.llm.request import Answer
from trace_assets.environments.audit.check import AuditCheck, Finding, Judge, NotJudged, Subject
from trace_assets.environments.audit.scripted_rollouts import Played, calls_in
from trace_assets.environments.judge.asking import (
    MOST_DISPUTES,
    about_episodes,
    asked,
    by_model,
    is_paid,
    played,
    right_beside,
    shown_of,
)
from trace_assets.environments.judge.material import (
    Episode,
    EpisodeNumber,
    JudgeQuestion,
    Material,
    Step,
    Steps,
    Unplayable,
    render,
    script_of,
)
from trace_assets.environments.judge.review import accusation, claims_against
from trace_assets.stats.intervals import wilson

EACH = 5
"""Right solutions of an episode."""
REWORDED = 3
"""Episodes that they are written for: one of each decision as far as they go."""
LEAST_PLAYED = 0.5
"""Share of a model's solutions that must be playable before they say anything."""


class LackingPlay(Answer):
    """What an agent without the capability does in one episode."""

    episode: EpisodeNumber
    why: str
    steps: Steps


class LackingPlays(Answer):
    """The same for all episodes."""

    plays: list[LackingPlay]


class RightPlay(Answer):
    """A right solution of one episode."""

    episode: EpisodeNumber
    differs: str
    steps: Steps


class RightPlays(Answer):
    """Right solutions of some episodes."""

    plays: list[RightPlay]


def lacking_question(material: Material, model: str) -> JudgeQuestion[LackingPlays]:
    """Return the question what agents do that lack the capability."""
    numbers = [one.number for one in material.episodes]

    def mend(given: LackingPlays) -> LackingPlays:
        plays = {one.episode: one for one in given.plays if one.episode in numbers}
        return LackingPlays(plays=[plays[number] for number in numbers if number in plays])

    def join(before: LackingPlays, after: LackingPlays) -> LackingPlays:
        return LackingPlays(plays=[*before.plays, *after.plays])

    def examine(given: LackingPlays) -> list[str]:
        there = {one.episode for one in given.plays}
        missing = [f"episode {number} is not among them" for number in numbers if number not in there]
        return [*missing, *_unplayable((one.episode, one.steps) for one in given.plays)]

    return JudgeQuestion(
        kind="lacking",
        model=model,
        system=about_episodes(material),
        user=render("lacking.md", episodes=numbers, steps=render("steps.md")),
        schema=LackingPlays,
        examine=examine,
        mend=mend,
        join=join,
    )


def reworded_question(material: Material, model: str) -> JudgeQuestion[RightPlays]:
    """Return the question for right solutions that differ."""
    numbers = [one.number for one in material.episodes[:REWORDED]]

    def mend(given: RightPlays) -> RightPlays:
        return RightPlays(plays=[one for one in given.plays if one.episode in numbers])

    def join(before: RightPlays, after: RightPlays) -> RightPlays:
        again = {one.episode for one in after.plays}
        return RightPlays(plays=[*(o for o in before.plays if o.episode not in again), *after.plays])

    def examine(given: RightPlays) -> list[str]:
        wrong = _unplayable((one.episode, one.steps) for one in given.plays)
        for number in numbers:
            there = sum(one.episode == number for one in given.plays)
            if there < EACH:
                wrong.append(f"episode {number} has {there} solutions, not {EACH}")
        return wrong

    return JudgeQuestion(
        kind="reworded",
        model=model,
        system=about_episodes(material),
        user=render("reworded.md", episodes=numbers, steps=render("steps.md")),
        schema=RightPlays,
        examine=examine,
        mend=mend,
        join=join,
    )


def _unplayable(plays: Iterable[tuple[int, Sequence[Step]]]) -> list[str]:
    wrong = []
    for number, steps in plays:
        try:
            script_of(steps)
        except Unplayable as why:
            wrong.append(f"episode {number}: {why}")
    return wrong


@by_model
def lacking(subject: Subject, judge: Judge) -> Finding:
    """Agents that lack the capability and do all else right, as a model writes them, are mostly not paid.

    Whoever wrote them has seen what is right: an environment that pays them asks for something else.
    """
    material = shown_of(subject)
    found = {one.episode: one for one in asked(subject, judge, lacking_question(material, judge.model)).plays}
    n = paid = 0
    shown = ""
    for episode in material.episodes:
        one = found[episode.number]
        try:
            other = played(subject, episode, one.steps)
        except Unplayable:
            continue
        n += 1
        if is_paid(other, episode.best):
            paid += 1
            if not shown or calls_of(other) != calls_of(episode.best):
                shown = f"; such as on seed {episode.seed}: {one.why}"
    if n < max(2, LEAST_PLAYED * len(material.episodes)):
        return Finding("skip", f"only {n} of the {len(material.episodes)} agents could be played")
    most = subject.rules.max_lacking
    low, high = wilson(paid, n)
    claims = claims_against(subject, judge, "capability", "lack_unpaid")
    said = "".join(f"; the reviewer: {accusation(item)}" for item in claims)
    failed = paid / n > most
    words = f"{paid} of {n} agents without it are paid{shown if failed else ''}{said}"
    return Finding("fail" if failed else "pass", words, paid / n, n, f"<= {most:.0%}", low=low, high=high)


def calls_of(one: Played) -> list[tuple[str, str]]:
    """Return the calls of an episode, to be compared."""
    return [(call["name"], str(sorted(call["arguments"].items()))) for call in calls_in(one.actions)]


@by_model
def reworded(subject: Subject, judge: Judge) -> Finding:
    """Right solutions in five other ways, and one that a reviewer names, are paid as the oracle's are.

    An unpaid one counts where, compared by a model that is not told which is the oracle's, it is right.
    """
    material = shown_of(subject)
    given = asked(subject, judge, reworded_question(material, judge.model)).plays
    by_number = {one.number: one for one in material.episodes}
    plays = [
        (by_number[item.episode], item.steps)
        for item in claims_against(subject, judge, "rights_paid")
        if item.episode in by_number and item.steps
    ]
    plays += [(by_number[one.episode], one.steps) for one in given]
    n, paid, wrong, refused, open_ones = 0, 0, "", 0, list[str]()
    for episode, steps in plays:
        try:
            other = played(subject, episode, steps)
        except Unplayable:
            continue
        n += 1
        if is_paid(other, episode.best):
            paid += 1
        elif not wrong and refused + len(open_ones) < MOST_DISPUTES:
            try:
                verdict = right_beside(subject, judge, episode, other)
            except NotJudged as error:
                open_ones.append(str(error))
                continue
            refused += not verdict.right
            wrong = _unpaid(episode, other, verdict.why) if verdict.right else ""
    low, high = wilson(paid, n)
    bound = "every solution that is right is paid"
    words = f"{paid} of {n} paid"
    words += f"; {refused} unpaid ones are wrong, compared blindly" if refused else ""
    if wrong:
        return Finding("fail", f"{words}; {wrong}", paid / n, n, bound, low=low, high=high)
    if n < max(2, LEAST_PLAYED * len(plays)):
        return Finding("skip", f"only {n} of the {len(plays)} solutions could be played")
    if open_ones:
        return Finding("skip", f"{words}; of an unpaid one it could not be told: {open_ones[0]}")
    return Finding("pass", words, paid / n, n, bound, low=low, high=high)


def _unpaid(episode: Episode, other: Played, why: str) -> str:
    done = " -> ".join(one["name"] for one in calls_in(other.actions)) or "words alone"
    return f"on seed {episode.seed} {done} is right and paid {other.reward:.3g}: {why}"


SOLUTION_CHECKS = (
    AuditCheck("trace.judge.lacking", "judged", lacking, ("semantic.floor_gap",)),
    AuditCheck("trace.judge.reworded", "judged", reworded, ("semantic.floor_gap",)),
)
