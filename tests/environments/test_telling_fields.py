"""A field that no text speaks of tells the decision, or does not; answers are read as they are written."""

from __future__ import annotations

import numpy as np
import pytest

from trace_assets.diagnosis.detectors.notation import DEEPEST
from trace_assets.environments.audit.dependence import BY_SIZE, by_size, is_spread
from trace_assets.environments.audit.telling_fields import Flag, flags_of, has_a_say, spoken_of, tells
from trace_assets.environments.contract.answers import written


@pytest.mark.parametrize(
    "text",
    [
        '<order no="7"><state>open</state></order>',
        '{"no": 7, "state": "open"}',
        "no: 7\nstate: open",
        "no=7; state=open",
        "<order><no>7</no><state>open</state></order>",
    ],
)
def test_a_record_is_one_however_it_is_written(text: str) -> None:
    assert written(text) == {"no": 7, "state": "open"}


def test_entries_of_lists_are_told_apart() -> None:
    entries = [{"no": "A1", "state": "open"}, {"no": "A2", "state": "shut"}]
    assert written("no,state\nA1,open\nA2,shut") == entries
    assert written("| no | state |\n|---|---|\n| A1 | open |\n| A2 | shut |") == entries
    assert written("no=A1; state=open\nno=A2; state=shut") == entries
    assert written("<all><one no='A1' state='open'/><one no='A2' state='shut'/></all>") == {"one": entries}


@pytest.mark.parametrize(
    "text",
    ["<a><b></a></b>", "<a", "a < b and c > d", "<" * 3_000, "<a>" * (DEEPEST + 2) + "</a>" * (DEEPEST + 2)],
)
def test_what_only_looks_like_tags_stays_a_text(text: str) -> None:
    found = written(text)
    assert isinstance(found, str) or set(found) >= {"says"}


@pytest.mark.parametrize("text", ["a" * 20_000, "a1" * 10_000, "a-" * 10_000, "a b " * 5_000, "=" * 20_000])
def test_a_long_text_is_read_at_once(text: str) -> None:
    # A pattern that tries everything anew at each letter would take minutes.
    assert written(text)


def test_sentences_are_alike_whatever_their_names_and_figures() -> None:
    one, two = (written(f"Loan L{n} is for {n} days. It was mended.") for n in (31, 470))
    assert one == {"says": ["Loan # is for # days", "It was mended"], "days": 31}
    assert two == {"says": ["Loan # is for # days", "It was mended"], "days": 470}


def test_a_flag_beside_one_that_texts_speak_of_is_spoken_of() -> None:
    rows = [{"get.state": "shut" if n % 2 else "open", "get.mark": "x" if n % 2 else "y"} for n in range(8)]
    spoken = {str(one) for one in spoken_of(flags_of(rows), {"open"})}
    assert spoken == {
        "get.state is 'open'",
        "get.state is 'shut'",
        "get.state has 'open'",
        "get.state has 'shut'",
    }


def test_what_goes_with_a_class_or_against_it_tells() -> None:
    meant = np.arange(40) < 20
    assert tells(meant, meant)
    assert tells(~meant, meant)
    assert not tells(np.arange(40) < 23, meant)


def test_numbers_tell_by_their_limits_where_every_record_has_one() -> None:
    rows = [{"get.n": n, **({"get.m": n} if n else {})} for n in range(3)]
    assert [one for one in flags_of(rows) if one.how == "<="] == [
        Flag("get.n", "<=", 0.5),
        Flag("get.n", "<=", 1.5),
    ]


def test_a_number_that_is_tried_again_and_again_is_not_spread() -> None:
    assert is_spread(range(32))
    assert not is_spread([*range(16), *[60] * 16])


def test_what_stands_in_place_of_a_wording_says_no_more_than_that() -> None:
    """`slow` is what has to be understood; `filed` stands beside what is."""
    rows = [
        {"get.says": [["slow", "dead", "lost"][n % 3], *(["filed"] if n % 3 else []), f"x{n % 2}"]}
        for n in range(48)
    ]
    flags = {str(one): (one, held) for one, held in flags_of(rows).items()}
    spoken = dict(flags[f"get.says is '{one}'"] for one in ("dead", "lost"))
    meant = np.array([n % 3 == 0 for n in range(48)])
    assert not has_a_say(spoken, meant, *flags["get.says is 'slow'"])
    assert has_a_say(spoken, meant, *flags["get.says is 'filed'"])


def test_a_number_that_a_rule_goes_by_may_have_any_low_digits() -> None:
    limit = [6, 9, 12, 15]
    assert by_size([n - 1 for n in limit] + [1, 2, 3], [*limit, 20, 24]) >= BY_SIZE
    assert by_size(range(1000, 1100, 2), range(1001, 1101, 2)) < BY_SIZE
