"""Chance that decides what is paid and shows nowhere: then no agent can know what is right.

The module is played with one of its draws of chance made otherwise, everything else left as it is. Where that
is another task that looks the same, and each one's solution goes unpaid in the other, the oracle knows what
no agent can: a word, an amount, or a whole decision.
"""

from __future__ import annotations

import itertools
from typing import Any

from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    Probe,
    again,
    calls_in,
    numbered,
    reads_everything,
)
from trace_assets.targets.seeds import COLUMNS, ROWS

SEEDS, LEAST, TASKS = 8, 2, 120
"""Seeds that are played so, on how many of them a draw is made otherwise at least, and tasks as a rule."""
MOST_DRAWS, MOVES = 48, (1, 2, 3, 5, 7)
"""Draws of a seed that are made otherwise at most, and by how much its number is moved."""
_SPAN, _COUNTS = COLUMNS * ROWS, 999
_OTHERWISE = f"""


class _Otherwise:
    import copy, hashlib, random

    drawing = ("random", "uniform", "triangular", "gauss", "normalvariate", "randrange", "randint", "choice")
    drawing += ("getrandbits", "expovariate", "betavariate", "choices", "sample", "shuffle", "randbytes")
    reckoning = ("add", "sub", "mul", "mod", "floordiv", "and", "or", "xor", "rshift", "lshift", "divmod")
    plain, reset, oracle = int, staticmethod(reset), staticmethod(oracle)
    altered, drawn, moved, within, playing, digests = -1, 0, 0, False, False, {{}}

    class Drawn(random.Random):
        pass

    class End(random.Random):
        def random(self):
            return self.end

    class Whole(type):
        def __call__(cls, *given):
            return given[0] if given and isinstance(given[0], _Otherwise.Seed) else _Otherwise.plain(*given)

        def __instancecheck__(cls, one):
            return isinstance(one, _Otherwise.plain)

        def __getattr__(cls, name):
            return getattr(_Otherwise.plain, name)

    class Digest:
        def __init__(self, own):
            self.own = own

        def __getattr__(self, name):
            return getattr(self.own, name)

        def digest(self):
            return _Otherwise.digest(self.own.digest())

        def hexdigest(self):
            return self.digest().hex()

    class Module:
        def __init__(self, own):
            self.own = own

        def __getattr__(self, name):
            found = getattr(self.own, name)
            if found is _Otherwise.random.Random:
                return _Otherwise.Drawn
            digests = self.own is _Otherwise.hashlib and name in getattr(found, "__name__", "")
            return (lambda *given: _Otherwise.Digest(found(*given))) if digests else found

    @classmethod
    def draw(cls, play, others):
        if cls.within or not cls.playing:
            return play()
        cls.within = True
        try:
            found = play()
            made = [one for one in others() if one != found] if cls.drawn == cls.altered else []
        finally:
            cls.drawn, cls.within = cls.drawn + 1, False
        if made and isinstance(found, (cls.plain, float)):
            return max(made, key=lambda one: abs(one - found))
        return made[0] if made else found

    @classmethod
    def digest(cls, own):
        if cls.playing and own not in cls.digests:
            cls.digests[own] = cls.draw(lambda: own, lambda: [own[::-1]])
        return cls.digests.get(own, own)

    @classmethod
    def other_draws(cls, name, given, named):
        made = [cls.random.Random(turn) for turn in range(8)]
        if name in ("random", "uniform", "randrange", "randint"):
            made = [cls.End(), cls.End()]
            made[0].end, made[1].end = 0.001, 0.999
        return [getattr(one, name)(*given, **named) for one in made]

    @classmethod
    def shuffle(cls, own, one):
        def play():
            kept = list(one)
            cls.random.Random.shuffle(own, kept)
            return kept

        others = [cls.random.Random(turn).sample(list(one), len(one)) for turn in range(8)]
        one[:] = cls.draw(play, lambda: others)

    @classmethod
    def play(cls, function, seed):
        if cls.playing:
            return function(seed)
        code, own = divmod(seed, {_SPAN})
        cls.altered, cls.drawn, cls.playing, cls.digests = code - 1, 0, True, {{}}
        cls.moved = max(code - {MOST_DRAWS}, 0) % {_COUNTS - MOST_DRAWS}
        try:
            found = function(cls.Seed(own))
        finally:
            cls.playing = False
        return [{{"role": "assistant", "content": str(cls.drawn)}}] if code == {_COUNTS} else found


class _Seed(int):
    pass


def _drawing(name):
    plain = getattr(_Otherwise.random.Random, name)
    return lambda self, *given, **named: _Otherwise.draw(
        lambda: plain(self, *given, **named), lambda: _Otherwise.other_draws(name, given, named)
    )


def _reckoning(name):
    plain = getattr(_Otherwise.plain, name)
    return lambda self, *given: plain(_Otherwise.plain(self) + _Otherwise.moved, *given)


for _name in _Otherwise.drawing:
    if _name == "shuffle":
        _Otherwise.Drawn.shuffle = lambda self, one: _Otherwise.shuffle(self, one)
    else:
        setattr(_Otherwise.Drawn, _name, _drawing(_name))
_Otherwise.Seed = _Seed
for _name in _Otherwise.reckoning:
    for _side in ("__", "__r"):
        setattr(_Seed, _side + _name + "__", _reckoning(_side + _name + "__"))
for _name, _value in list(globals().items()):
    if _value is _Otherwise.random or _value is _Otherwise.hashlib:
        globals()[_name] = _Otherwise.Module(_value)
    elif _value is _Otherwise.random.Random:
        globals()[_name] = _Otherwise.Drawn
    elif _Otherwise.plain is not _value and getattr(_value, "__module__", "") == "_hashlib":
        globals()[_name] = (lambda make: lambda *given: _Otherwise.Digest(make(*given)))(_value)


class int(metaclass=_Otherwise.Whole):
    pass


def reset(seed):
    return _Otherwise.play(_Otherwise.reset, seed)


def oracle(seed):
    return _Otherwise.play(_Otherwise.oracle, seed)
"""
"""What is put behind a module: a seed then also says which of its draws is made otherwise."""


def decided_by_chance(subject: Subject) -> tuple[dict[int, str], int]:
    """Find seeds on which a draw that shows nowhere decides what is paid.

    A draw counts only where no look, of the two solutions or of any other tool, is answered otherwise, and
    trying the other deed does not tell either, or costs something.

    Returns:
        What differs, by seed, and how many seeds were played so.
    """
    own = subject.probe
    probe = Probe(subject.pool, own.source + _OTHERWISE, (), own.budget, "otherwise")
    found: dict[int, str] = {}
    seeds = subject.seeds[:SEEDS]
    drawn = max(int(str(probe.oracle(seed + _COUNTS * _SPAN)[0]["content"])) for seed in seeds)
    codes = [*range(1, min(drawn, MOST_DRAWS) + 1), *(MOST_DRAWS + by for by in MOVES)]
    turns = min(SEEDS, max(LEAST, TASKS // len(codes)))
    for place, turn in itertools.product(range(len(codes)), range(turns)):
        seed = seeds[(place + turn) % len(seeds)]
        other = seed + _SPAN * codes[place]
        if seed in found or probe.first(other) != probe.first(seed):
            continue
        if words := _unknown(subject, probe, seed, other):
            found[seed] = words
    return found, len(seeds)


def _unknown(subject: Subject, probe: Probe, seed: int, other: int) -> str:
    """Return how the solutions of two tasks differ that look the same; nothing where an agent can know."""
    script, otherwise = probe.oracle(seed), probe.oracle(other)
    pairs = enumerate(zip(map(_deed, script), map(_deed, otherwise), strict=False))
    at = next((n for n, (one, two) in pairs if one != two), min(len(script), len(otherwise)))
    if at == max(len(script), len(otherwise)):
        return ""
    tried = [*script[: at + 1], *otherwise[at:]]
    if any(
        probe.play(where, numbered(actions)).success
        for where, actions in ((other, script), (seed, otherwise))
    ):
        return ""
    tells = _told(probe, seed, tried[: at + 1]) != _told(probe, other, tried[: at + 1])
    if tells and probe.play(other, numbered(tried)).success:
        return ""  # it may be found out by trying
    if not (probe.best(seed).success and probe.best(other).success):
        return ""
    looks = [again(one) for one in calls_in([*script, *otherwise]) if not subject.probe.writes(one["name"])]
    looks += reads_everything(subject.probe, seed)
    if any(_told(probe, seed, one) != _told(probe, other, one) for one in (script[:at], looks)):
        return ""
    one, two = (_said(actions[at:]) for actions in (script, otherwise))
    return f"{one} is right, and where chance falls otherwise {two}, and nothing shows which"


def _told(probe: Probe, seed: int, actions: list[Action]) -> list[Any]:
    return [answer["messages"] for answer in probe.walk(seed, numbered(actions))]


def _deed(action: Action) -> tuple[list[tuple[str, Any]], str]:
    calls: list[Call] = action.get("tool_calls") or []
    return [(one["name"], one["arguments"]) for one in calls], str(action.get("content") or "")


def _said(actions: list[Action]) -> str:
    calls, words = _deed(actions[0]) if actions else ([], "nothing more")
    return ", ".join(f"{name} {given}" for name, given in calls) or f"'{words}'"
