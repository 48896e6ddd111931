"""What is called a cron expression here is one to Dagster too."""

from __future__ import annotations

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.cron import cron_error


def accepted_by_dagster(text: str) -> bool:
    try:
        dg.ScheduleDefinition(job_name="job", cron_schedule=text)
    except dg.DagsterInvalidDefinitionError:
        return False
    return True


FIELDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    ranged = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.tuples(st.just("*") | ranged, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    item = st.just("*") | value.map(str) | ranged | step
    return st.lists(item, min_size=1, max_size=3).map(",".join)


@given(st.tuples(*(field(low, high) for low, high in FIELDS)))
def test_what_is_accepted_here_is_accepted_by_dagster(parts: tuple[str, ...]) -> None:
    text = " ".join(parts)
    if cron_error(text) is None:
        assert accepted_by_dagster(text)


@given(st.text(alphabet="0123456789*-,/ jansumon@", max_size=20))
def test_any_text_is_judged_without_breaking(text: str) -> None:
    if cron_error(text) is None:
        assert accepted_by_dagster(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "0 fields"),
        ("@daily", "1 field,"),
        ("60 * * * *", "minute '60'"),
        ("* 24 * * *", "hour '24'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * * 13 *", "month '13'"),
        ("* * * * 8", "day of week '8'"),
        ("* * * * mo", "one of sun"),
        ("*/0 * * * *", "step '0'"),
        ("5/10 * * * *", "no range"),
        ("30-10 * * * *", "backwards"),
        ("1-2-3 * * * *", "not a value or a range"),
        ("0 0 31 2 *", "no such day"),
        ("0 0 30,31 2,2 *", "no such day"),
    ],
)
def test_what_is_wrong_is_said(text: str, word: str) -> None:
    problem = cron_error(text)
    assert problem is not None and word in problem


@pytest.mark.parametrize("text", ["0 2 * * *", "*/15 9-17 * * mon-fri", "0 0 29 feb *", "0 0 31 1,2 *"])
def test_what_is_right_passes(text: str) -> None:
    assert cron_error(text) is None and accepted_by_dagster(text)
