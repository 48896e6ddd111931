"""How the checks of this folder ask: once, where there is a model; without an answer none of them passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from trace_assets.diagnosis.llm.request import A, Answer
from trace_assets.environments.audit.check import Finding, Judge, NotJudged, Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Played
from trace_assets.environments.judge.material import Episode, Material, material_of, transcript
from trace_assets.environments.judge.question import (
    JudgeQuestion,
    Said,
    Step,
    Unplayable,
    quoted,
    render,
    script_of,
)

MOST_DISPUTES = 3
"""Solutions that a check has compared with the oracle's: each costs two requests."""

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
            return run(subject, subject.judge)
        except NotJudged as reason:
            return Finding("skip", f"it could not run: {reason}")

    return check


def shown_of(subject: Subject) -> Material:
    """Return what a judge is shown of an environment, chosen and played once."""
    known = subject.kept.get("material")
    if not isinstance(known, Material):
        known = subject.kept["material"] = material_of(subject)
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


def right_beside(subject: Subject, judge: Judge, episode: Episode, other: Played) -> tuple[bool, bool, str]:
    """Return whether another solution is right, whether the oracle's is, and why.

    The model is told neither which is the oracle's nor what is paid; it is asked in both orders, and what it
    does not say twice it has not said.

    Raises:
        NotJudged: There is no answer, or the two contradict each other.
    """
    material = shown_of(subject)
    with_system = not material.policy
    texts = [transcript(one, with_system=with_system) for one in (other, episode.best)]
    forth = asked(subject, judge, _compare(judge, material, *texts))
    back = asked(subject, judge, _compare(judge, material, *reversed(texts)))
    if (forth.first, forth.second) != (back.second, back.first):
        raise NotJudged("asked in the other order, the model took the other one to be right")
    why = f'{forth.why} Policy: "{forth.policy}"'
    return forth.first == "yes", forth.second == "yes", why


def _compare(judge: Judge, material: Material, first: str, second: str) -> JudgeQuestion[Compared]:
    def examine(answer: Compared) -> list[str]:
        if answer.policy and material.policy and not quoted(answer.policy, material.policy):
            return ["`policy` is not copied letter by letter from the policy"]
        return []

    return JudgeQuestion(
        kind="compare",
        model=judge.model,
        system=render("compare.md", shared=material.shared()),
        user=render("compare_ask.md", first=first, second=second),
        schema=Compared,
        examine=examine,
    )
