"""Plays a module with one of its draws of chance, digests or reckonings with the seed made otherwise.

It is put behind a module and run where that runs: it brings all that it needs, in one function, and leaves
the module's other names as they are.
"""

from __future__ import annotations

from typing import Any


def play_otherwise(names: dict[str, Any], span: int, most_draws: int, counts: int) -> None:
    """Make the `reset` and `oracle` of a module play otherwise where their seed says so.

    A seed holds a code above `span`: 0 plays as ever, a number up to `most_draws` makes the draw of that
    number otherwise, a larger one moves the seed wherever it is reckoned with, and `counts` has the oracle
    say how many draws there are.

    Args:
        names: The module's globals.
        span: Above all seeds.
        most_draws: Draws that are made otherwise at most.
        counts: The code above all others.
    """
    import hashlib
    import random

    plain: Any = int
    first, solve = names["reset"], names["oracle"]
    ends = ("random", "uniform", "randrange", "randint")
    drawing: tuple[str, ...] = (
        *ends,
        "triangular",
        "gauss",
        "normalvariate",
        "choice",
        "choices",
        "sample",
        "randbytes",
    )
    drawing += ("getrandbits", "expovariate", "betavariate")
    reckoning = ("add", "sub", "mul", "mod", "floordiv", "and", "or", "xor", "rshift", "lshift", "divmod")

    class Now:
        altered, drawn, moved = -1, 0, 0
        within = playing = False
        digests: dict[bytes, bytes] = {}

    def draw(play: Any, others: Any) -> Any:
        if Now.within or not Now.playing:
            return play()
        Now.within = True
        try:
            found = play()
            made = [one for one in others() if one != found] if Now.drawn == Now.altered else []
        finally:
            Now.drawn, Now.within = Now.drawn + 1, False
        numbers = [one for one in made if isinstance(one, plain | float)]
        if numbers and isinstance(found, plain | float):  # a choice may hold None or words beside them
            return max(numbers, key=lambda one: abs(one - found))
        return made[0] if made else found

    class End(random.Random):
        def __init__(self, end: float) -> None:
            super().__init__(0)
            self.end = end

        def random(self) -> float:
            return self.end

    def other_draws(name: str, given: Any, named: Any) -> list[Any]:
        turns = [End(0.001), End(0.999)] if name in ends else [random.Random(turn) for turn in range(8)]
        return [getattr(one, name)(*given, **named) for one in turns]

    class Drawn(random.Random):
        def shuffle(self, x: Any) -> None:
            def play() -> list[Any]:
                kept = list(x)
                random.Random.shuffle(self, kept)
                return kept

            others = [random.Random(turn).sample(list(x), len(x)) for turn in range(8)]
            x[:] = draw(play, lambda: others)

    def drawn_as(name: str) -> Any:
        own = getattr(random.Random, name)
        return lambda self, *given, **named: draw(
            lambda: own(self, *given, **named), lambda: other_draws(name, given, named)
        )

    class Seed(int):
        pass

    def reckoned_as(name: str) -> Any:
        own = getattr(plain, name)
        return lambda self, *given: own(plain(self) + Now.moved, *given)

    class Whole(type):
        def __call__(cls, *given: Any) -> Any:
            return given[0] if given and isinstance(given[0], Seed) else plain(*given)

        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, plain)

        def __getattr__(cls, name: str) -> Any:
            return getattr(plain, name)

    class Digest:
        def __init__(self, own: Any) -> None:
            self.own = own

        def __getattr__(self, name: str) -> Any:
            return getattr(self.own, name)

        def digest(self) -> bytes:
            own = bytes(self.own.digest())
            if Now.playing and own not in Now.digests:
                Now.digests[own] = draw(lambda: own, lambda: [own[::-1]])
            return Now.digests.get(own, own)

        def hexdigest(self) -> str:
            return self.digest().hex()

    def digesting(make: Any) -> Any:
        return lambda *given: Digest(make(*given))

    class Module:
        def __init__(self, own: Any) -> None:
            self.own = own

        def __getattr__(self, name: str) -> Any:
            found = getattr(self.own, name)
            if found is random.Random:
                return Drawn
            digests = self.own is hashlib and name in getattr(found, "__name__", "")
            return digesting(found) if digests else found

    def playing(function: Any) -> Any:
        def play(seed: Any) -> Any:
            if Now.playing:
                return function(seed)
            code, own = divmod(seed, span)
            Now.altered, Now.drawn, Now.playing, Now.digests = code - 1, 0, True, {}
            Now.moved = max(code - most_draws, 0) % (counts - most_draws)
            try:
                found = function(Seed(own))
            finally:
                Now.playing = False
            return [{"role": "assistant", "content": str(Now.drawn)}] if code == counts else found

        return play

    for name in drawing:
        setattr(Drawn, name, drawn_as(name))
    for name in reckoning:
        for side in ("__", "__r"):
            setattr(Seed, f"{side}{name}__", reckoned_as(f"{side}{name}__"))
    for name, value in list(names.items()):
        if value is random or value is hashlib:
            names[name] = Module(value)
        elif value is random.Random:
            names[name] = Drawn
        elif value is not plain and getattr(value, "__module__", "") == "_hashlib":
            names[name] = digesting(value)
    names |= {"int": Whole("int", (), {}), "reset": playing(first), "oracle": playing(solve)}
