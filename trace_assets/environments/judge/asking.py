"""How the checks of this folder ask: once, where there is a model; without an answer none of them passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Literal

from trace_assets.diagnosis.llm.request import A, Answer
from trace_assets.environments.audit.check import Finding, Judge, NotJudged, Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Played
from trace_assets.environments.judge.looks import Look, further_looks
from trace_assets.environments.judge.material import (
    Episode,
    JudgeQuestion,
    Material,
    Said,
    Step,
    Unplayable,
    material_of,
    other_material,
    quoted,
    render,
    script_of,
    transcript,
)

MOST_DISPUTES = 3
"""Solutions that a check has compared with the oracle's: each costs two requests, and a third in dispute."""
NO_VERDICT = "no verdict"
"""How the evidence of a check begins that asked and was told nothing of use."""

JudgeCheck = Callable[[Subject, Judge], Finding]


def by_model(run: JudgeCheck) -> Callable[[Subject], Finding]:
    """Make a check of one that asks a model: a skip with its reason where that is not possible."""

    @wraps(run)
    def check(subject: Subject) -> Finding:
        if subject.judge is None:
            return Finding("skip", subject.no_judge)
        if subject.purpose is None:
            return Finding("skip", "nobody says which capability it is for")
        try:
            found = run(subject, subject.judge)
        except NotJudged as reason:
            found = Finding("skip", f"it could not run: {reason}")
        return _without_verdict(found, subject) if found.status == "skip" else found

    return check


def _without_verdict(found: Finding, subject: Subject) -> Finding:
    """Return a finding that says nothing as the settings have it: told as such, or a rejection."""
    status: Literal["skip", "fail"] = "fail" if subject.section.no_verdict == "reject" else "skip"
    return replace(found, status=status, evidence=f"{NO_VERDICT}: {found.evidence}")


def shown_of(subject: Subject) -> Material:
    """Return what a judge is shown of an environment, chosen and played once."""
    known = subject.kept.get("material")
    if not isinstance(known, Material):
        known = subject.kept["material"] = material_of(subject)
    return known


def elsewhere(subject: Subject) -> Material | None:
    """Return the same with episodes that are not shown otherwise; None where there are too few."""
    return other_material(subject, shown_of(subject))


def further_looks_of(subject: Subject) -> list[tuple[Episode, list[Look]]]:
    """Return the episodes that a judge is shown with looks that their oracles did not make, played once."""
    known = subject.kept.get("further looks")
    if not isinstance(known, list):
        episodes = shown_of(subject).episodes
        others = [one.best for one in episodes]
        known = [(one, further_looks(subject.probe, one.best, others)) for one in episodes]
        subject.kept["further looks"] = known
    return known


def asked(subject: Subject, judge: Judge, question: JudgeQuestion[A]) -> A:
    """Return the answer to a question that several checks ask; what was in vain is not asked again.

    Raises:
        NotJudged: There is none.
    """
    known = subject.kept.get(question.key)
    if known is None:
        try:
            known = judge.ask(question)
        except NotJudged as error:
            known = error
        subject.kept[question.key] = known
    if isinstance(known, NotJudged):
        raise known
    assert isinstance(known, question.schema)
    return known


def about_episodes(material: Material) -> str:
    """Return what all questions about the episodes begin with: servers cache it."""
    return render("judge.md", shared=material.shared(), episodes=material.shown())


def played(subject: Subject, episode: Episode, steps: Sequence[Step]) -> Played:
    """Play a model's steps in an episode, in the sandbox.

    Raises:
        Unplayable: They are none, name a tool that there is not, or do not end the episode.
    """
    script = script_of(steps)
    known = {tool["function"]["name"] for tool in subject.probe.tools()}
    for action in script:
        for call in action.get("tool_calls") or ():
            if call["name"] not in known:
                raise Unplayable(f"there is no tool {call['name'][:60]!r}")
    return play_to_the_end(subject, episode, script)


def play_to_the_end(subject: Subject, episode: Episode, script: list[Action]) -> Played:
    """Play a script; one whose last words the user answers is said again, as the oracle's are ended."""
    one = subject.probe.play(episode.seed, script)
    if one.answers and not _over(one) and not script[-1].get("tool_calls"):
        one = subject.probe.play(episode.seed, [*script, script[-1]])
    if not one.answers or not _over(one):
        raise Unplayable("the episode does not end with it")
    return one


def _over(one: Played) -> bool:
    return bool(one.answers[-1]["done"] or one.answers[-1]["truncated"])


def is_paid(one: Played, best: Played) -> bool:
    """Whether an agent is paid as the oracle is."""
    return one.success and one.reward >= best.reward - 1e-9


# Which of two is right: asked twice, each time with the other one first, by a model that knows neither.


class Compared(Answer):
    """Which of two agents did what the policy says."""

    why: str
    first: Said
    second: Said
    policy: str


class Alone(Answer):
    """Whether one agent did what the policy says."""

    why: str
    right: Said
    policy: str


@dataclass(frozen=True)
class Verdict:
    """What a blind comparison came to.

    Attributes:
        right: Whether the other solution is right.
        oracle: The same of the oracle's; None where the two answers differ in that.
        why: In the model's words, with what it quotes.
    """

    right: bool
    oracle: bool | None
    why: str


def right_beside(subject: Subject, judge: Judge, episode: Episode, other: Played) -> Verdict:
    """Return whether another solution is right.

    The model is told neither which is the oracle's nor what is paid; it is asked in both orders. Where the
    two answers differ about the other solution, this is shown alone, without an order, and two of three
    decide.

    Raises:
        NotJudged: There is no answer, no two of three agree, or the model cannot tell.
    """
    material = shown_of(subject)
    with_system = not material.policy
    mine, best = (transcript(one, with_system=with_system) for one in (other, episode.best))
    forth = asked(subject, judge, _compare(judge, material, mine, best))
    back = asked(subject, judge, _compare(judge, material, best, mine))
    votes = [(forth.first, forth.why, forth.policy), (back.second, back.why, back.policy)]
    if forth.first != back.second:
        alone = right_alone(subject, judge, other)
        votes.append((alone.right, alone.why, alone.policy))
    said, times = Counter(vote for vote, *_ in votes).most_common(1)[0]
    if times < 2:
        raise NotJudged("asked three times whether a solution is right, the model said three things")
    if said == "cannot_tell":
        raise NotJudged("the model cannot tell whether a solution is right")
    why, policy = next(rest for vote, *rest in votes if vote == said)
    oracle = forth.second == "yes" if forth.second == back.first else None
    return Verdict(said == "yes", oracle, f'{why} Policy: "{policy}"')


def right_alone(subject: Subject, judge: Judge, one: Played) -> Alone:
    """Return whether a solution is right, by a model that sees no other and knows not what is paid.

    Raises:
        NotJudged: There is no answer.
    """
    material = shown_of(subject)
    return asked(subject, judge, _alone(judge, material, transcript(one, with_system=not material.policy)))


def _not_quoted(policy: str, material: Material) -> list[str]:
    if policy and material.policy and not quoted(policy, material.policy):
        return ["`policy` is not copied letter by letter from the policy"]
    return []


def _compare(judge: Judge, material: Material, first: str, second: str) -> JudgeQuestion[Compared]:
    return JudgeQuestion(
        kind="compare",
        model=judge.model,
        system=render("compare.md", shared=material.shared()),
        user=render("compare_ask.md", first=first, second=second),
        schema=Compared,
        examine=lambda answer: _not_quoted(answer.policy, material),
    )


def _alone(judge: Judge, material: Material, text: str) -> JudgeQuestion[Alone]:
    return JudgeQuestion(
        kind="alone",
        model=judge.model,
        system=render("alone.md", shared=material.shared()),
        user=render("alone_ask.md", text=text),
        schema=Alone,
        examine=lambda answer: _not_quoted(answer.policy, material),
    )
