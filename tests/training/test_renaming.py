"""Other identifiers in demonstrations: the same ones throughout, and nothing else changed."""

from __future__ import annotations

import random
import re
from itertools import islice
from typing import Any

import pytest

from trace_assets.targets.embedded.demonstrations import demonstrations
from trace_assets.training.episodes import Row
from trace_assets.training.warm_start import IDENTIFIER, Renaming

pytest.importorskip("transformers")

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from trace_assets.training.demo_agent.model import new_tokenizer

    return new_tokenizer()


@pytest.fixture(scope="module")
def rows(tokenizer: Any) -> list[Row]:
    from trace_assets.training.demo_agent.model import own_tokens, render

    found = []
    for one in islice(demonstrations(0, 0, 200), 200):
        ids = tokenizer("".join(render(message) for message in one.messages))["input_ids"]
        own = [int(mine) for mine in own_tokens(ids, tokenizer)]
        first = own.index(1)
        found.append(Row(ids[:first], ids[first:], [0.0] * len(own[first:]), own[first:], 1.0, True))
    return found


def text_of(tokenizer: Any, row: Row) -> str:
    return str(tokenizer.decode(row.prompt_ids + row.completion_ids))


def test_identifiers_are_others_and_all_else_is_as_it_was(tokenizer: Any, rows: list[Row]) -> None:
    renaming = Renaming(rows, tokenizer, random.Random(0))
    changed = 0
    for row in rows:
        other = renaming.another(row)
        before, after = text_of(tokenizer, row), text_of(tokenizer, other)
        assert IDENTIFIER.sub("#", before) == IDENTIFIER.sub("#", after)
        names, new = IDENTIFIER.findall(before), IDENTIFIER.findall(after)
        became = dict(zip(names, new, strict=True))
        assert [became[name] for name in names] == new, "one identifier became two"
        assert len(set(became.values())) == len(became), "two identifiers became one"
        assert all(name[0] == became[name][0] for name in names), "its letters changed"
        assert (other.own, other.reward, other.success) == (row.own, row.reward, row.success)
        assert len(other.completion_ids) == len(other.logprobs) == len(other.own)
        changed += names != new
    assert changed > 0.9 * len(rows)


def test_each_time_they_are_others_again(tokenizer: Any, rows: list[Row]) -> None:
    renaming = Renaming(rows, tokenizer, random.Random(0))
    assert len({text_of(tokenizer, renaming.another(rows[0])) for _ in range(8)}) > 4
    again = [Renaming(rows, tokenizer, random.Random(1)).another(rows[0]) for _ in range(2)]
    assert again[0] == again[1], "equal draws gave another episode"


def test_only_what_the_agent_copied_is_replaced(tokenizer: Any, rows: list[Row]) -> None:
    pool = Renaming(rows, tokenizer, random.Random(0)).pool
    assert set(pool) == {"K00", "M00"}
    read = "".join(tokenizer.decode(row.prompt_ids) for row in rows)
    assert set().union(*pool.values()) <= set(re.findall(r"[KM][0-9]{2}", read))
    silent = Row(
        rows[0].prompt_ids, rows[0].completion_ids, rows[0].logprobs, [0] * len(rows[0].own), 1, True
    )
    assert not Renaming([silent], tokenizer, random.Random(0)).pool


def test_an_episode_whose_text_has_other_tokens_is_left_alone(tokenizer: Any, rows: list[Row]) -> None:
    """A policy may write a word in pieces: taught in one token it would be another episode."""
    number = tokenizer.encode(IDENTIFIER.findall(text_of(tokenizer, rows[0]))[0])[0]
    pieces = [tokenizer.convert_tokens_to_ids(letter) for letter in tokenizer.decode([number])]
    spelled = [one for token in rows[0].prompt_ids for one in (pieces if token == number else [token])]
    assert len(spelled) > len(rows[0].prompt_ids)
    odd = Row(spelled, rows[0].completion_ids, rows[0].logprobs, rows[0].own, 1.0, True)
    assert Renaming(rows, tokenizer, random.Random(0)).another(odd) is odd


def test_where_there_are_too_few_to_choose_from_they_stay(tokenizer: Any, rows: list[Row]) -> None:
    """An episode shows orders that are not asked for: each has to become one of its own."""
    row = next(one for one in rows if len(set(IDENTIFIER.findall(text_of(tokenizer, one)))) > 1)
    renaming = Renaming([row], tokenizer, random.Random(0))
    renaming.pool = {kind: found[:0] for kind, found in renaming.pool.items()}
    assert renaming.another(row) == row
