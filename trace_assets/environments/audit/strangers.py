"""Agents of mere words: drawn anew for every environment, or read off its own program.

The other attackers can be read in this program, and an environment that has read it could be honest with
them alone: with their refusals, the oracle's closing words, a fixed order of calls. What strangers say and do
is drawn from a secret, in the shapes that policies speak in: a word, a sentence, a paragraph, words beside
calls, several calls at once, nothing at all.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Attacker,
    Probe,
    arguments_for,
    call,
    calls_in,
    numbered,
    properties,
    reads_everything,
    request,
)

MOST_CALLS = 4
LONG_TEXT, MOST_TEXTS = 60, 300
"""Letters of a text of a program that may be a word to say, and how many of them are said at once."""
MOST_ASKED, FEW = 8, 4
"""Texts that are said first and last, and seeds on which each is tried before it is tried on all."""
_ASKING = frozenset({"startswith", "endswith", "count", "find", "index", "search", "match", "fullmatch"})


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.replace("\n", " ").split("/"))


_STARTS = _phrases(
    """Sure/Of course/Okay/Thanks/Right/Hello/Let me see/One moment/I understand/Well/Yes/No/Hm/Good question/
    I have checked/I looked into it/As far as I can tell/Unfortunately/Great/Apologies"""
)
_SUBJECTS = _phrases("I/we/you/this/that/it/the system/your account/our team/the record/everything")
_VERBS = _phrases(
    """have looked at/can see/will need/checked/found/would like/cannot find/may want/updated/considered/
    should ask about/noticed/could not change/left/went through/prepared/remember/compared/reviewed/handled"""
)
_OBJECTS = _phrases(
    """the details/another option/your request/the matter/two entries/the next step/a few things/the status/
    some more information/nothing unusual/the list/a different time/the date/what you mentioned/the numbers"""
)
_ENDS = _phrases(
    """today/for now/as you said/by tomorrow/again/carefully/in the morning/if that is fine/with pleasure/
    as usual/before we go on/without delay/at the moment/at last/after all/soon"""
)


def sentence(rng: random.Random) -> str:
    """Return an ordinary sentence that has most likely never been said."""
    words = [rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_OBJECTS)]
    if rng.random() < 0.5:
        words.append(rng.choice(_ENDS))
    text = " ".join(words)
    if rng.random() < 0.5:
        return f"{rng.choice(_STARTS)}, {text}{rng.choice('.!')}"
    return f"{text[0].upper()}{text[1:]}{rng.choice('..!?')}"


def _paragraph(rng: random.Random) -> str:
    return rng.choice((" ", "\n\n", "\n- ")).join(sentence(rng) for _ in range(rng.randrange(3, 8)))


def _word(rng: random.Random) -> str:
    word = rng.choice((*_STARTS, *_ENDS, *_OBJECTS)).split()[0]
    return rng.choice((word, word.lower(), word + ".", word.upper(), f"{word}?"))


def _letters(rng: random.Random) -> str:
    length = rng.randrange(1, 9)
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyzäß漢語0123456789") for _ in range(length))


Words = Callable[[Probe, int, random.Random], str]
STYLES: Mapping[str, Words] = {
    "a word": lambda probe, seed, rng: _word(rng),
    "letters": lambda probe, seed, rng: _letters(rng),
    "a sentence": lambda probe, seed, rng: sentence(rng),
    "a paragraph": lambda probe, seed, rng: _paragraph(rng),
    "the request's words": lambda probe, seed, rng: _from_request(probe, seed, rng),
    "nothing": lambda probe, seed, rng: "",
}
"""How they speak."""


def _from_request(probe: Probe, seed: int, rng: random.Random) -> str:
    words = request(probe, seed).split()
    rng.shuffle(words)
    return f"{sentence(rng)} {' '.join(words[: rng.randrange(1, 8)])}"


def _silent(probe: Probe, seed: int, rng: random.Random) -> Iterator[Action]:
    """Does nothing."""
    yield from ()


def _looks(probe: Probe, seed: int, rng: random.Random) -> Iterator[Action]:
    """Looks some things up."""
    reads = reads_everything(probe, seed)
    yield from rng.sample(reads, min(len(reads), rng.randrange(1, MOST_CALLS)))


def _tries(probe: Probe, seed: int, rng: random.Random) -> Iterator[Action]:
    """Makes some calls, whatever they change."""
    tools = probe.tools()
    for _ in range(rng.randrange(1, MOST_CALLS)):
        tool = rng.choice(tools)
        yield call(tool["function"]["name"], rng.choice(arguments_for(tool, probe, seed, rng)))


DEEDS = {"does nothing": _silent, "looks": _looks, "tries": _tries}


def stranger(deeds: str, style: str) -> Attacker:
    """Return an agent of one kind of deeds and one way of speaking.

    Args:
        deeds: A key of `DEEDS`.
        style: A key of `STYLES`.
    """

    def attack(probe: Probe, seed: int) -> list[Action]:
        rng = probe.chance(f"stranger/{deeds}/{style}/{seed}")
        script = list(DEEDS[deeds](probe, seed, rng))
        if len(script) > 1 and rng.random() < 0.3:  # all at once
            script = [{"role": "assistant", "tool_calls": calls_in(script)}]
        script = [
            {**action, "content": STYLES[style](probe, seed, rng)} if rng.random() < 0.5 else action
            for action in script
        ]
        if deeds == "does nothing" and rng.random() < 0.3:  # says something more before
            script.append({"role": "assistant", "content": sentence(rng)})
        return numbered([*script, {"role": "assistant", "content": STYLES[style](probe, seed, rng)}])

    return attack


def texts_in(source: str) -> list[str]:
    """Return the short texts of a program, each once.

    >>> texts_in("if 'ahoy' in said or said == '': print('ahoy')")
    ['ahoy']
    """
    found = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    texts = dict.fromkeys(one for one in found if isinstance(one, str) and 0 < len(one) <= LONG_TEXT)
    return list(texts)[:MOST_TEXTS]


def asked_for(source: str) -> list[str]:
    """Return the short texts that a program compares something with, or looks for in something.

    >>> asked_for("said.startswith('ahoy') or 'yes' in said or said['no'] == 'why' or re.match('x', y)")
    ['ahoy', 'yes', 'why', 'x']
    """
    return list(dict.fromkeys(one for one in _asked(ast.parse(source)) if 0 < len(one) <= LONG_TEXT))


def _asked(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            sides = node.args[:1] if node.func.attr in _ASKING else []
        several = (one.elts if isinstance(one, ast.Tuple | ast.List | ast.Set) else [one] for one in sides)
        for one in (inner for own in several for inner in own):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.value


def says_its_words(subject: Subject, kept: Callable[[Probe, int], list[Action]]) -> dict[str, Attacker]:
    """Return agents that say what the program has for words beside what is left of the oracle's script.

    One says all of them. One each says a text that the program asks for first and last; it is among them
    only where it is paid on one of a few seeds.

    Args:
        subject: The environment under audit.
        kept: Returns what is left of the script on a seed.
    """
    probe = subject.probe
    found: dict[str, Attacker] = {"in the program's words": _says(kept, " ".join(texts_in(probe.source)))}
    names = _names_of_tools(probe.tools())
    for text in [one for one in asked_for(probe.source) if one not in names][:MOST_ASKED]:
        agent = _says(kept, text)
        scripts = {seed: agent(probe, seed) for seed in subject.seeds[:FEW]}
        if any(probe.play(seed, one).success for seed, one in scripts.items() if one != probe.oracle(seed)):
            found[f"says '{text}'"] = agent
    return found


def _says(kept: Callable[[Probe, int], list[Action]], text: str) -> Attacker:
    def attack(probe: Probe, seed: int) -> list[Action]:
        left = kept(probe, seed)
        if len(left) == len(probe.oracle(seed)):
            return probe.oracle(seed)
        return numbered([{**one, "content": f"{text} {one.get('content') or ''} {text}"} for one in left])

    return attack


def _names_of_tools(tools: list[dict[str, Any]]) -> set[str]:
    """Return what the tools and their arguments are called: what is compared with these is a call."""
    named = {tool["function"]["name"] for tool in tools}
    return named | {key for tool in tools for key in properties(tool)}
