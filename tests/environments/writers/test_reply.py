"""The module in a reply: every way in which models wrap, split, cut and withhold it."""

from __future__ import annotations

import ast

import pytest

from trace_assets.environments.writers.reply import FUNCTIONS, find_module, is_whole, joined, parses

MODULE = '''"""An environment."""

import json


def tools():
    return [{"type": "function"}]


def reset(seed):
    return [{"role": "user", "content": f"Case {seed}: use ```code``` and ~~~"}]


def step(message):
    return {"messages": [], "done": True, "truncated": False}


def verdict():
    return {"reward": 0.0, "success": False, "checks": []}


def oracle(seed):
    return []
'''
PLAIN = MODULE.replace("```code``` and ~~~", "code")
HELPER = "def helper():\n    return 1\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"```python\n{PLAIN}```",
        f"```py\n{PLAIN}\n```\n",
        f"```\n{PLAIN}```",
        f"~~~python\n{PLAIN}~~~",
        f"````python\n{PLAIN}````",
        f"<think>```python\nimport os\n``` maybe</think>Sure:\n```python\n{PLAIN}```\nHave fun!",
        f"An example of a call:\n```json\n{{}}\n```\nand the module:\n```python\n{PLAIN}```",
        f"First a sketch.\n```python\n{HELPER}```\nNow all of it:\n```python\n{PLAIN}```",
        f"Here it is:\n\n{PLAIN}\nI hope that this helps, it's tested.",
        f"```python\r\n{PLAIN.replace(chr(10), chr(13) + chr(10))}```",
        f"Never closed:\n```python\n{PLAIN}",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_the_whole_module_is_found(text: str) -> None:
    found = find_module(text)
    assert found.kind == "module"
    assert ast.dump(ast.parse(found.source)) == ast.dump(ast.parse(PLAIN))


def test_a_module_that_holds_fences_in_its_strings_survives_a_longer_fence() -> None:
    found = find_module(f"````python\n{MODULE}````")
    assert ast.dump(ast.parse(found.source)) == ast.dump(ast.parse(MODULE))


def test_a_module_told_in_several_blocks_is_put_together() -> None:
    cut = PLAIN.index("def step")
    found = find_module(f"Part one:\n```python\n{PLAIN[:cut]}```\nPart two:\n```python\n{PLAIN[cut:]}```")
    names = {node.name for node in ast.parse(found.source).body if isinstance(node, ast.FunctionDef)}
    assert names == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("I will not create an environment of this kind.", "refusal"),
        ("The capability is interesting. Let me think about its design first.", "no_code"),
        ("```json\n{}\n```", "no_code"),
        ("<think>def tools(): pass</think>", "empty"),
    ],
)
def test_a_reply_without_a_module_says_why(text: str, kind: str) -> None:
    found = find_module(text)
    assert (found.kind, found.source) == (kind, "")
    assert len(find_module(text + "x" * 10_000).remark) <= 400


def test_code_that_does_not_parse_is_a_module_all_the_same_and_is_said_to_be_broken() -> None:
    broken = PLAIN.replace("def step(message):", "def step(message)")
    found = find_module(f"```python\n{broken}```")
    assert found.kind == "module" and not parses(found.source)


def test_a_half_module_is_cut_only_where_the_server_said_so() -> None:
    half = "```python\n" + PLAIN[: PLAIN.index("reward") + 3]
    assert find_module(half, cut=True).kind == "cut"
    assert find_module(half).kind == "module"


@pytest.mark.parametrize("at", [60, 150, 260, 360])
@pytest.mark.parametrize("repeats", ["nothing", "fence", "ending", "everything"])
def test_halves_are_joined_whatever_the_second_repeats(at: int, repeats: str) -> None:
    whole = f"```python\n{PLAIN}```"
    first, second = whole[:at], whole[at:]
    second = {
        "nothing": second,
        "fence": f"```python\n{second}",
        "ending": first[-30:] + second,
        "everything": whole,
    }[repeats]
    assert ast.dump(ast.parse(find_module(joined(first, second)).source)) == ast.dump(ast.parse(PLAIN))


@pytest.mark.parametrize("bomb", ["(" * 100_000, "-" * 200_000 + "1", "x" * 300_000, "a\0b", "[" * 5000])
def test_texts_that_break_parsers_are_answered(bomb: str) -> None:
    found = find_module(f"```python\n{bomb}\ndef tools(): pass\n```")
    assert not parses(found.source)
    assert not is_whole(bomb)


def test_code_that_repeats_itself_where_it_was_cut_loses_nothing() -> None:
    lines = "".join(f"def {name}(*a):\n    return {{'the same value': 1}}\n" for name in FUNCTIONS)
    same = "    'same line': 'same line',\n"
    block = f"```python\nX = {{\n{' ' * 60}'a': 1,\n{same * 3}}}\n{lines}```"
    for at in range(block.index("X"), len(block)):
        assert find_module(joined(block[:at], block[at:])).source == block[10:-3], at
