"""What is called a cron expression here is one to Dagster too."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise

import dagster as dg
import pytest
from dagster._utils.schedules import cron_string_iterator  # Dagster's ticks have no public door
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.settings.operation import cron_error, pauses


def accepted_by_dagster(text: str) -> bool:
    try:
        dg.ScheduleDefinition(job_name="job", cron_schedule=text)
    except dg.DagsterInvalidDefinitionError:
        return False
    return True


FIELDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    # Dagster takes `5-5` for every value there is: left out
    pairs = st.tuples(value, value).filter(lambda pair: pair[0] < pair[1])
    ranged = pairs.map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.tuples(st.just("*") | ranged, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    item = value.map(str) | ranged | step
    return st.just("*") | st.lists(item, min_size=1, max_size=3).map(",".join)


@settings(max_examples=examples(40), deadline=None)
@given(st.tuples(*(field(low, high) for low, high in FIELDS)))
def test_what_is_accepted_here_is_accepted_by_dagster(parts: tuple[str, ...]) -> None:
    text = " ".join(parts)
    if cron_error(text) is None:
        assert accepted_by_dagster(text)


@settings(max_examples=examples(40), deadline=None)
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
        ("30-10 * * * *", "upwards"),
        ("5-5 * * * *", "upwards"),
        ("1,* * * * *", "alone"),
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


@settings(max_examples=examples(40), deadline=None)
@given(st.tuples(*(field(low, high) for low, high in FIELDS)))
def test_pauses_are_those_of_dagsters_own_ticks(parts: tuple[str, ...]) -> None:
    text = " ".join(parts)
    if cron_error(text) is not None:
        return
    shortest, longest = pauses(text)
    ticks = islice(cron_string_iterator(datetime(2024, 1, 1, tzinfo=UTC).timestamp(), text, "UTC"), 40)
    seen = [after - before for before, after in pairwise(ticks)]
    assert shortest <= min(seen) and max(seen) <= longest


@pytest.mark.parametrize(
    ("text", "hours"),
    [("*/15 * * * *", (0.25, 0.25)), ("0 9,17 * * *", (8, 16)), ("0 0 1 1 *", (365 * 24, 366 * 24))],
)
def test_pauses_of_plain_schedules(text: str, hours: tuple[float, float]) -> None:
    assert tuple(pause.total_seconds() / 3600 for pause in pauses(text)) == hours
