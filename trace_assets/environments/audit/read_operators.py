"""Operators that look again, later, or in another order: harmless where all else is answered as it was."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator

from trace_assets.diagnosis.detectors.values import tells_error
from trace_assets.environments.audit.added_changes import before_closing
from trace_assets.environments.audit.scripted_rollouts import Action, Played, Probe, again, calls_in


def _reads(probe: Probe, seed: int) -> list[int]:
    """Return which messages of the oracle are one read each that was answered and not refused."""
    answers = probe.best(seed).answers
    return [
        i
        for i, (action, answer) in enumerate(zip(probe.oracle(seed), answers, strict=False))
        if len(calls_in((action,))) == 1
        and not probe.writes(calls_in((action,))[0]["name"])
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
