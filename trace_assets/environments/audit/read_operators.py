"""Operators that look again, later, or in another order: harmless where all else is answered as it was."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence

from trace_assets.diagnosis.detectors.values import tells_error
from trace_assets.environments.audit.added_changes import before_closing
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Played,
    Probe,
    again,
    calls_in,
    numbered,
)


def _reads(probe: Probe, seed: int) -> list[int]:
    """Return which messages of the oracle are one read each that was answered, and not refused.

    What is answered alike on every seed shows nothing: it may be a deed whose name is not known for one.
    """
    answers = probe.best(seed).answers
    return [
        i
        for i, (action, answer) in enumerate(zip(probe.oracle(seed), answers, strict=False))
        if len(calls_in((action,))) == 1
        and not probe.writes(calls_in((action,))[0]["name"])
        and not probe.only_acknowledges(calls_in((action,))[0]["name"])
        and not any(message.get("is_error") or message.get("error") for message in answer["messages"])
    ]


def repeat_read(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Repeats a read at once."""
    script = probe.oracle(seed)
    for i in _reads(probe, seed):
        yield [*script[: i + 1], again(calls_in((script[i],))[0]), *script[i + 1 :]]


def late_read(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Reads again before closing."""
    script, reads = probe.oracle(seed), _reads(probe, seed)
    if reads:
        yield before_closing(script, again(calls_in((script[rng.choice(reads)],))[0]))


def swap_reads(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes two neighbouring reads in the other order, where the later does not use what the earlier told."""
    script, reads, answers = probe.oracle(seed), _reads(probe, seed), probe.best(seed).answers
    for i, j in itertools.pairwise(reads):
        later = calls_in((script[j],))[0]
        told = json.dumps(answers[i]["messages"])
        used = any(str(value) in told for value in later["arguments"].values())
        if j == i + 1 and not used and calls_in((script[i],))[0]["arguments"] != later["arguments"]:
            yield [*script[:i], script[j], script[i], *script[j + 1 :]]


def moves(best: Played, one: Played) -> bool:
    """Whether a call is refused that was not before, or no longer answered as it was."""
    before, after = _answers(best), _answers(one)
    return not before <= after or any(refused for _, _, refused in after - before)


def _answers(one: Played) -> set[tuple[str, str, bool]]:
    """Return calls of an episode with what they were answered, and whether that is a refusal."""
    calls = {c["id"]: json.dumps([c["name"], c["arguments"]], sort_keys=True) for c in calls_in(one.actions)}
    told = [m for answer in one.answers for m in answer["messages"] if m.get("tool_call_id") in calls]
    texts = [str(m.get("content") or "") for m in told]
    return {
        (calls[m["tool_call_id"]], text, bool(m.get("is_error")) or tells_error(text))
        for m, text in zip(told, texts, strict=True)
    }


def passes_time(probe: Probe, seeds: Sequence[int], seed: int, script: Sequence[Action]) -> bool:
    """Whether what a mutant makes again, or at another time, is an act: elsewhere it moves what looks show.

    A tool that waits counts as no change, and where nothing comes of it, it looks like any look.

    Args:
        probe: Of the environment under audit.
        seeds: Those on which the same tools are made twice.
        seed: Of the mutant.
        script: The mutant.
    """
    names = {json.loads(one)[0] for one in _changed(_calls(probe.oracle(seed)), _calls(script))}
    return any(
        moves(probe.best(other), probe.play(other, numbered(twice)))
        for other in seeds
        for twice in repeat_read(probe, other, probe.chance("passes_time"))
        if names & {json.loads(one)[0] for one in _changed(_calls(probe.oracle(other)), _calls(twice))}
    )


def _calls(script: Sequence[Action]) -> list[str]:
    return [json.dumps([one["name"], one["arguments"]], sort_keys=True) for one in calls_in(script)]


def _changed(before: Sequence[str], after: Sequence[str]) -> Sequence[str]:
    """Return what stands between the beginning and the end that two scripts share.

    >>> _changed("abcd", "abbcd"), _changed("abcd", "acbd")
    ('b', 'cb')
    """
    begin = next(
        (n for n, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), len(before)
    )
    most = min(len(before), len(after)) - begin
    pairs = zip(reversed(before), reversed(after), strict=False)
    end = next((n for n, pair in enumerate(pairs) if len(set(pair)) > 1 or n >= most), most)
    return after[begin : len(after) - end]
