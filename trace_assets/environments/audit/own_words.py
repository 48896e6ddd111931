"""The texts that stand in an environment's program: a word that pays is one of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Attacker, Probe, numbered, properties

LONG_TEXT, MOST_TEXTS = 60, 300
"""Letters of a text of a program that may be a word to say, and how many of them are said at once."""
MOST_ASKED, FEW = 8, 4
"""Texts that are said first and last, and seeds on which each is tried before it is tried on all."""
_ASKING = frozenset({"startswith", "endswith", "count", "find", "index", "search", "match", "fullmatch"})


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
