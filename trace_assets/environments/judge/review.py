"""A reviewer: item by item, with quotes, whether what is paid is what policy and capability ask for."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.diagnosis.llm.json_reply import id_of
from trace_assets.diagnosis.llm.request import Answer
from trace_assets.environments.audit.check import AuditCheck, Finding, Judge, NotJudged, Subject
from trace_assets.environments.judge.asking import (
    MOST_DISPUTES,
    about_episodes,
    asked,
    by_model,
    is_paid,
    played,
    right_alone,
    right_beside,
    shown_of,
)
from trace_assets.environments.judge.material import (
    EpisodeNumber,
    JudgeQuestion,
    Material,
    Said,
    Steps,
    Unplayable,
    before_changes,
    decision,
    quoted,
    render,
    system_of,
)

GENERAL = ("capability", "lack_unpaid", "untold", "rights_paid")
"""Questions about the environment as a whole."""
MIN_UNCLEAR = 0.25
"""Share of episodes in which a reviewer cannot tell whether the oracle is right: then that is looked into."""
UNCLEAR = 2
"""And how many there must be at the least."""
MIN_AGREEMENT = 0.95
"""Share of seeds on which a sign must go with one decision before it gives that away."""
MIN_EXPLAINED = 0.75
"""Share of requests that must hold an explanation before the user gives the capability away."""


class Item(Answer):
    """The answer to one question."""

    id: str
    why: str
    answer: Said
    policy: str
    quote: str
    episode: EpisodeNumber
    signs: list[str]
    steps: Steps


class Review(Answer):
    """The answers to all of them."""

    items: list[Item]


def review_question(material: Material, policy: str, model: str) -> JudgeQuestion[Review]:
    """Return the question.

    Args:
        material: What is shown.
        policy: Of all episodes, for the quotes.
        model: Who is asked.
    """
    numbers = [one.number for one in material.episodes]
    ids = {**{f"E{number}": "" for number in numbers}, **dict.fromkeys(GENERAL, "")}
    texts = {one.number: one.text for one in material.episodes}
    about = f"{policy}\n{material.name}\n{material.description}\n{material.tools}"

    def mend(review: Review) -> Review:
        items: dict[str, Item] = {}
        for one in review.items:
            if name := id_of(one.id, ids):
                number = int(name[1:]) if name not in GENERAL else one.episode
                items[name] = one.model_copy(update={"id": name, "episode": number})
        return Review(items=[items[name] for name in ids if name in items])

    def join(before: Review, after: Review) -> Review:
        again = {one.id for one in after.items}
        return Review(items=[*(one for one in before.items if one.id not in again), *after.items])

    def examine(review: Review) -> list[str]:
        given = {one.id for one in review.items}
        wrong = [f"`{name}` is not answered" for name in ids if name not in given]
        for one in review.items:
            if one.answer != "no":
                continue
            if not quoted(one.policy, about):
                wrong.append(f"`{one.id}`: `policy` is not copied letter by letter from what is shown")
            elif not quoted(one.quote, texts.get(one.episode, "")):
                wrong.append(f"`{one.id}`: `quote` is not copied letter by letter from a line of its episode")
            elif one.id == "untold" and not any(one.signs):
                wrong.append("`untold`: `signs` is empty")
        return wrong

    return JudgeQuestion(
        kind="review",
        model=model,
        system=about_episodes(material),
        user=render("review.md", episodes=numbers, steps=render("steps.md")),
        schema=Review,
        examine=examine,
        mend=mend,
        join=join,
    )


def _reviewed(subject: Subject, judge: Judge) -> dict[str, Item]:
    material = shown_of(subject)
    policy = material.policy or "\n".join(system_of(one.best.first) for one in material.episodes)
    answer = asked(subject, judge, review_question(material, policy, judge.model))
    return {one.id: one for one in answer.items}


def accusation(item: Item) -> str:
    """Return a model's `no` in its words, with its quotes."""
    return f'{item.why} ("{item.quote}" in episode {item.episode}; asked for: "{item.policy}")'


@by_model
def oracle_right(subject: Subject, judge: Judge) -> Finding:
    """A reviewer finds that the oracle does what the policy says, in each of some episodes.

    A `no` counts where the reviewer's own solution goes unpaid in the sandbox and, compared by a model that
    is not told which is which, is right; where none can be played, its quotes alone count. Where it cannot
    tell in a quarter of them, and a model that sees the oracle's solution alone cannot confirm it either,
    agents cannot know what is right.
    """
    items = _reviewed(subject, judge)
    episodes = shown_of(subject).episodes
    own = [items[f"E{one.number}"] for one in episodes]
    accused = [(one, item) for one, item in zip(episodes, own, strict=True) if item.answer == "no"]
    dropped, disputed = list[str](), ""
    bound = "no episode in which the oracle breaks the policy"
    for episode, item in accused[:MOST_DISPUTES]:
        words = f"seed {episode.seed}: {accusation(item)}"
        try:
            other = played(subject, episode, item.steps)
        except Unplayable as why:
            return Finding("fail", f"{words}; not tried in the sandbox: {why}", None, len(own), bound)
        if is_paid(other, episode.best):
            dropped.append(f"seed {episode.seed}: what the reviewer takes to be right is paid as well")
            continue
        try:
            verdict = right_beside(subject, judge, episode, other)
        except NotJudged as error:
            disputed = disputed or f"{words}: {error}"
            continue
        if verdict.right:
            also = " as well" if verdict.oracle else ""
            paid = f"the right solution is paid {other.reward:.3g}{also}: {verdict.why}"
            return Finding("fail", f"{words}; compared blindly, {paid}", other.reward, len(own), bound)
        dropped.append(f"seed {episode.seed}: compared blindly, the reviewer's solution is wrong")
    if disputed:
        return Finding("skip", f"an accusation stays open, {disputed}", None, len(own), bound)
    unclear = [one for one, item in zip(episodes, own, strict=True) if item.answer == "cannot_tell"]
    if len(unclear) >= max(UNCLEAR, MIN_UNCLEAR * len(own)):
        doubts = [
            (one, said)
            for one in unclear[:MOST_DISPUTES]
            if (said := right_alone(subject, judge, one.best)).right != "yes"
        ]
        if len(doubts) >= UNCLEAR:
            one, said = doubts[0]
            words = f"what is right cannot be told in {len(unclear)} of {len(own)} episodes, such as on seed"
            return Finding("fail", f"{words} {one.seed}: {said.why}", None, len(own), bound)
        dropped.append(f"what one answer could not tell in {len(unclear)} episodes another one could")
    kept = len(own) - len(accused)
    return Finding("pass", "; ".join(dropped) or f"{kept} of {len(own)} right", 0.0, len(own), bound)


@by_model
def untold(subject: Subject, judge: Judge) -> Finding:
    """A reviewer finds nothing that gives the decision away beside what the policy names.

    A `no` counts where the signs that it names go with one decision on nearly all seeds, or stand in most
    requests as an explanation of how the capability is exercised.
    """
    item = _reviewed(subject, judge)["untold"]
    if item.answer != "no":
        return _general(item)
    seeds = subject.seeds
    best = [subject.probe.best(seed) for seed in seeds]
    signs = [" ".join(sign.split()) for sign in item.signs if sign.strip()]
    read = [" ".join(before_changes(subject.probe, one).split()) for one in best]
    shown = [any(sign in text for sign in signs) for text in read]
    share, kind = _agreement(shown, [decision(subject.probe, one) for one in best])
    bound = f"no sign goes with one decision on {MIN_AGREEMENT:.0%} of the seeds"
    named = f"signs {signs}: {accusation(item)}"
    if share >= MIN_AGREEMENT:
        what = f"goes with {' + '.join(kind) or 'changing nothing'}"
        return Finding("fail", f"{what} on {share:.0%} of the seeds; {named}", share, len(seeds), bound)
    openings = [" ".join(_opening(one.first).split()) for one in best]
    told = sum(any(sign in text for sign in signs) for text in openings) / len(openings)
    if told >= MIN_EXPLAINED and quoted(item.quote, "\n".join(openings)):
        return Finding("fail", f"said in {told:.0%} of the requests; {named}", told, len(seeds), bound)
    return Finding("pass", f"not so on the other seeds ({share:.0%}); {named}", share, len(seeds), bound)


def _opening(messages: Sequence[dict[str, object]]) -> str:
    return "\n".join(str(one.get("content") or "") for one in messages if one["role"] != "system")


def _agreement(shown: Sequence[bool], decisions: Sequence[tuple[str, ...]]) -> tuple[float, tuple[str, ...]]:
    """Return how well a sign goes with the decision that it goes with best, and that one.

    >>> _agreement([True, False, True, False], [("a",), (), ("a",), ("b",)])
    (1.0, ('a',))
    >>> _agreement([True, True], [("a",), ("a",)])
    (0.0, ())
    """
    kinds = set(decisions)
    if len(set(shown)) < 2 or len(kinds) < 2:
        return 0.0, ()
    found = {
        kind: sum(sign == (one == kind) for sign, one in zip(shown, decisions, strict=True)) / len(shown)
        for kind in sorted(kinds)
    }
    best = max(found, key=lambda kind: found[kind])
    return found[best], best


def _general(item: Item) -> Finding:
    if item.answer == "cannot_tell":
        return Finding("skip", f"the model cannot tell: {item.why}")
    return Finding("pass", item.why)


def claims_against(subject: Subject, judge: Judge, *names: str) -> list[Item]:
    """Return the reviewer's accusations under some ids.

    Raises:
        NotJudged: There is no review.
    """
    items = _reviewed(subject, judge)
    return [items[name] for name in names if items[name].answer == "no"]


REVIEW_CHECKS = (
    AuditCheck("trace.judge.oracle", "judged", oracle_right, ("semantic.floor_gap",)),
    AuditCheck("trace.judge.untold", "judged", untold, ("semantic.floor_gap",)),
)
