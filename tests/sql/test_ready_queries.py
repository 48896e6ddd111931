"""Each ready query against figures counted by hand, and on a home that holds nothing."""

from __future__ import annotations

import tomllib

import pytest

import trace_assets
from trace_assets.errors import InputError
from trace_assets.records import (
    CompositionChoice,
    Contrast,
    DecisiveShare,
    FailureCause,
    Interference,
    Repair,
    SelectedCapability,
)
from trace_assets.settings import Selection
from trace_assets.stats.intervals import wilson
from trace_assets.store import Home, Store, Warehouse
from trace_assets.store.history import record
from trace_assets.store.views import ReadyQuery, ready_queries

EVERY = sorted(ready_queries())


def rows(home: Home, name: str, **parameters: str) -> list[dict[str, object]]:
    with Warehouse(home) as warehouse:
        return warehouse.ready(name, **parameters).to_dicts()


def pick(found: list[dict[str, object]], *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[column] for column in columns) for row in found]


def interval(k: int, n: int) -> tuple[float, float]:
    low, high = wilson(k, n)
    return round(low, 3), round(high, 3)


def test_nothing_stored_gives_no_rows(empty_home: Home) -> None:
    with Warehouse(empty_home) as warehouse:
        assert {name: warehouse.ready(name).height for name in EVERY} == dict.fromkeys(EVERY, 0)


def test_every_query_says_what_it_answers_and_orders_its_rows() -> None:
    for name, query in ready_queries().items():
        assert len(query.purpose) > 20 and query.purpose.endswith("."), name
        assert "ORDER BY" in query.sql, name
        assert all(parameter.meaning for parameter in query.parameters), name


RATES = {"pass_rate", "error_rate", "share", "success_rate", "validation_rate", "accuracy"}


def test_every_rate_has_its_n_and_interval(home: Home) -> None:
    with Warehouse(home) as warehouse:
        found = {name: warehouse.ready(name).columns for name in EVERY}
    for name, columns in found.items():
        if rates := RATES & set(columns):
            said = f"{name}: {rates}"
            assert any(one == "n" or one.startswith("n_") or one.endswith("_n") for one in columns), said
            assert any(one == "low" or one.endswith("_low") for one in columns), said


def test_training_prices_are_whole_powers_of_two_of_the_median(empty_home: Home) -> None:
    assert rows(empty_home, "training_prices") == []
    store = Store(empty_home.tables)
    costs = {"a": (50.0, 54.0), "b": (90.0, 110.0), "c": (420.0,)}
    for capability, runs in costs.items():
        for seconds in runs:
            spent = {("wall", "s"): seconds, ("episodes", "episodes"): 9.0}
            record(store, spent, stage="training", asset="adapter", partition=capability, cost_usd=1.0)
    record(store, {("wall", "s"): 9e9}, stage="training", asset="mixed_adapter")
    record(store, {("wall", "s"): 9e9}, stage="synthesis", asset="environment", partition="a")
    found = rows(empty_home, "training_prices")
    assert pick(found, "capability_id", "trainings", "cost", "price") == [
        ("c", 1, 420.0, 4.0),
        ("b", 2, 100.0, 1.0),
        ("a", 2, 52.0, 0.5),
    ]
    # The lines are settings as they stand.
    prices = tomllib.loads("\n".join(str(row["line"]) for row in found))
    assert Selection(prices=prices).prices == {"a": 0.5, "b": 1.0, "c": 4.0}
    # Another run of the same training, ten in a hundred slower, moves no price.
    record(store, {("wall", "s"): 462.0}, stage="training", asset="adapter", partition="c")
    assert pick(rows(empty_home, "training_prices"), "line") == pick(found, "line")
    assert [row["price"] for row in rows(empty_home, "training_prices", unit="usd")] == [1.0, 1.0, 1.0]


def test_pass_rate(home: Home) -> None:
    (row,) = rows(home, "pass_rate")
    assert (row["n"], row["passed"], row["pass_rate"], row["unjudged"], row["n_tasks"]) == (7, 4, 0.571, 1, 3)
    assert (row["low"], row["high"]) == interval(4, 7)


def test_pass_rate_by_task_is_hardest_first(home: Home) -> None:
    found = rows(home, "pass_rate_by_task")
    assert pick(found, "task_id", "n", "passed", "pass_rate", "unjudged") == [
        ("desk/2", 2, 0, 0.0, 0),
        ("desk/1", 3, 2, 0.667, 1),
        ("desk/3", 2, 2, 1.0, 0),
    ]
    assert pick(found, "low", "high") == [interval(0, 2), interval(2, 3), interval(2, 2)]
    assert rows(home, "pass_rate_by_task", policy="nobody") == []


def test_pass_rate_by_skill(home: Home) -> None:
    found = rows(home, "pass_rate_by_skill")
    assert pick(found, "skill", "n", "passed", "pass_rate", "n_tasks") == [
        ("cancel", 5, 2, 0.4, 2),
        ("refund", 2, 2, 1.0, 1),
    ]
    assert pick(found, "low", "high") == [interval(2, 5), interval(2, 2)]


def test_failures_by_fault(home: Home) -> None:
    found = rows(home, "failures_by_fault", target="desk")
    assert pick(found, "outcome", "fault", "rule", "failures", "n", "share") == [
        ("failed", "agent", "agent", 2, 4, 0.5),
        ("failed", "user_simulator", "stopped_first", 1, 4, 0.25),
        ("unjudged", "infrastructure", "fault", 1, 4, 0.25),
    ]
    assert pick(found, "low", "high")[0] == interval(2, 4)


def test_gap_table_keeps_undefined_gaps_last(home: Home) -> None:
    found = rows(home, "gap_table")
    assert pick(found, "capability_id", "gap", "gap_low", "gap_high", "n_failed_relevant", "kept") == [
        ("look", 0.988, 0.2, 1.0, 2, True),
        ("greet", None, 0.2, 1.0, 2, False),
    ]


def test_gap_table_begins_with_what_is_kept_of_any_target(home: Home) -> None:
    store = Store(home.tables)
    for kind in (Contrast, SelectedCapability):
        store.write(
            [
                row.model_copy(update={"target": "a first one"} if row.capability_id == "greet" else {})
                for row in store.read(kind)
            ],
            kind,
        )
    found = pick(rows(home, "gap_table"), "target", "kept")
    assert [kept for _, kept in found] == [True, False] and found[1][0] == "a first one"


def test_repairs_stand_beside_the_gap_and_run_by_run(home: Home) -> None:
    before = rows(home, "gap_table")
    assert pick(before, "decisive", "not_measured") == [(None, ""), (None, "")]
    store = Store(home.tables)
    share = DecisiveShare(
        capability_id="look",
        target="desk",
        share=0.5,
        share_low=0.1,
        share_high=0.9,
        n_replayed=2,
        n_decisive=1,
        n_tasks=2,
        placebo=0.0,
        placebo_low=0.0,
        placebo_high=0.6,
        n_placebo=2,
        n_lacking=2,
        n_not_repairable=0,
        n_not_replayable=0,
    )
    store.write([share], DecisiveShare)
    repairs = [
        Repair(
            trajectory_id=name,
            capability_id="look",
            target="desk",
            task_id="desk/1",
            status=status,
            reward_before=0.0,
            reward_after=after,
            placebo_rewards=(0.0,),
        )
        for name, status, after in (("t1", "decisive", 1.0), ("t4", "not decisive", 0.0))
    ]
    store.write(repairs, Repair, "b1")
    found = rows(home, "gap_table")
    assert pick(found, "capability_id", "decisive", "decisive_low", "n_replayed", "placebo", "n_placebo") == [
        ("look", 0.5, 0.1, 2, 0.0, 2),
        ("greet", None, None, None, None, None),
    ]
    told = rows(home, "repairs")
    assert pick(told, "trajectory_id", "status", "reward_after") == [
        ("t1", "decisive", 1.0),
        ("t4", "not decisive", 0.0),
    ]
    assert rows(home, "repairs", capability="look first") == told
    assert rows(home, "repairs", capability="greet") == []


def test_lacking_gives_kept_capabilities_or_the_one_asked_for(home: Home) -> None:
    found = rows(home, "lacking")
    assert pick(found, "capability_id", "trajectory_id", "success", "evidence") == [
        ("look", "t1", False, [1, 2]),
        ("look", "t4", False, [1, 2]),
    ]
    for asked in ("greet", "greet first"):
        only = rows(home, "lacking", capability=asked)
        assert pick(only, "capability_id", "trajectory_id") == [("greet", "t1")]


def test_evidence_shows_the_messages(home: Home) -> None:
    found = rows(home, "evidence", trajectory="t1")
    assert pick(found, "message", "role", "tool_name", "content") == [
        (1, "assistant", None, None),
        (2, "tool", "get_order", "no such order"),
    ]
    assert found[0]["calls"] == ['get_order {"order": "t1"}', 'cancel_order {"order": "t1"}']
    assert len(rows(home, "evidence")) == 4


def test_tool_errors_count_calls_by_their_own_result(home: Home) -> None:
    found = rows(home, "tool_errors")
    assert pick(found, "tool_name", "n", "errors", "error_rate", "unanswered") == [
        ("get_order", 8, 3, 0.375, 0),
        ("cancel_order", 8, 0, 0.0, 8),
    ]
    assert pick(found, "low", "high") == [interval(3, 8), interval(0, 8)]
    assert len(rows(home, "tool_errors", tool="get_order")) == 1


def test_disagreeing_tasks(home: Home) -> None:
    found = rows(home, "disagreeing_tasks")
    assert pick(found, "task_id", "n", "passed", "pass_rate", "a_success", "a_failure") == [
        ("desk/1", 3, 2, 0.667, "t0", "t1")
    ]
    assert pick(found, "low", "high") == [interval(2, 3)]
    assert rows(home, "disagreeing_tasks", min_trials="4") == []


def test_learning_curves(home: Home) -> None:
    found = rows(home, "learning_curves", adapter="look")
    assert pick(found, "iteration", "n", "success_rate", "success_low", "success_high") == [
        (1, 16, 0.5, *interval(8, 16)),
        (2, 16, 0.75, *interval(12, 16)),
    ]
    assert pick(found, "validation_n", "validation_rate", "validation_low", "validation_high") == [
        (None, None, None, None),
        (50, 0.8, *interval(40, 50)),
    ]
    assert (found[0]["reward_low"], found[0]["reward_high"]) == (0.304, 0.696)


def test_audit_failures_worst_first(home: Home) -> None:
    assert pick(rows(home, "audit_failures"), "check_id", "status") == [
        ("c", "fail"),
        ("b", "fail"),
        ("d", "skip"),
    ]
    assert pick(rows(home, "audit_failures", status="skip"), "check_id") == [("d",)]
    assert len(rows(home, "audit_failures", status="any")) == 4


def test_cost_by_stage_and_asset(home: Home) -> None:
    assert pick(
        rows(home, "cost"), "stage", "materializations", "wall_s", "cpu_s", "rollouts", "cost_usd"
    ) == [
        ("training", 1, 5.0, 20.0, None, 0.0),
        ("rollouts", 2, 12.0, 9.0, 10, 0.75),
    ]
    (row,) = rows(home, "cost_by_asset", stage="rollouts")
    assert (row["materializations"], row["partitions"], row["wall_s"], row["latest_wall_s"]) == (
        2,
        1,
        12.0,
        2.0,
    )


def test_evaluation_and_routers(home: Home) -> None:
    assert pick(rows(home, "evaluation"), "skill", "arm", "pass_rate", "low", "n_trials") == [
        ("all", "routed", 0.75, 0.2, 6),
        ("all", "base", 0.5, 0.2, 6),
        ("cancel", "routed", 1.0, 0.2, 6),
    ]
    assert len(rows(home, "evaluation", skill="cancel")) == 1
    assert pick(rows(home, "routers"), "split", "accuracy", "low", "n", "regret") == [
        ("discovery (held out)", 0.8, 0.5, 10, None),
        ("test", 0.8, 0.5, 10, 0.1),
    ]


def test_what_was_chosen_and_what_pulls_apart(empty_home: Home) -> None:
    figures = {"runner_up": False, "refused": "", "n_tasks": 10, "n_trials": 20}
    rate = {"pass_rate": 0.5, "pass_rate_low": 0.4, "pass_rate_high": 0.6}
    none = {"behind": None, "behind_low": None, "behind_high": None}
    behind = {"behind": 0.2, "behind_low": 0.1, "behind_high": 0.3}
    store = Store(empty_home.tables)
    store.write(
        [
            CompositionChoice(arm="routed", chosen=False, **figures, **(rate | {"pass_rate": 0.3}), **behind),
            CompositionChoice(arm="composed", chosen=True, **figures, **rate, **none),
        ],
        CompositionChoice,
    )
    assert pick(rows(empty_home, "composition"), "arm", "chosen", "pass_rate", "behind") == [
        ("composed", True, 0.5, None),
        ("routed", False, 0.3, 0.2),
    ]
    cosine = {"cosine": -0.9, "cosine_low": -1.0, "cosine_high": -0.8, "corrected": -0.95, "reliability": 0.9}
    pair = {"capability_id": "a", "other_id": "b", "verdict": "opposed"}
    store.write(
        [
            Interference(**pair, condition="x", other_condition="y", **cosine),
            Interference(**pair, condition="", other_condition="", **cosine, reason="they pull apart."),
        ],
        Interference,
    )
    found = rows(empty_home, "interference", capability="b")
    assert pick(found, "condition", "verdict", "reason") == [
        ("", "opposed", "they pull apart."),
        ("x", "opposed", ""),
    ]
    assert rows(empty_home, "interference", capability="c") == []


def test_wilson_macros_are_the_function() -> None:
    pairs = [(k, n) for n in (*range(26), 997, 10**6) for k in {*range(min(n, 25) + 1), n // 3, n}]
    with trace_assets.warehouse() as warehouse:
        found = warehouse.query(
            "SELECT wilson_low(p[1], p[2]) AS low, wilson_high(p[1], p[2]) AS high "
            "FROM (SELECT unnest($pairs::BIGINT[][]) AS p)",
            {"pairs": [list(pair) for pair in pairs]},
        ).rows()
    for pair, low_high in zip(pairs, found, strict=True):
        assert low_high == pytest.approx(wilson(*pair), abs=1e-12), pair


def test_wilson_of_nothing_is_nothing() -> None:
    with trace_assets.warehouse() as warehouse:
        assert warehouse.query("SELECT wilson_low(NULL, 3), wilson_high(1, NULL)").row(0) == (None, None)


def test_unknown_names_are_told(home: Home) -> None:
    with Warehouse(home) as warehouse:
        with pytest.raises(InputError, match="did you mean 'capability'"):
            warehouse.ready("lacking", capabilty="x")
        with pytest.raises(InputError, match="no ready query 'laking'"):
            warehouse.ready("laking")
        with pytest.raises(InputError, match="abc"):
            warehouse.ready("disagreeing_tasks", min_trials="abc")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT 1", "does not say what it answers"),
        ("-- $x: first\nSELECT $x", "does not say"),
        ("-- A query.\nSELECT $x", r"\$x"),
        ("-- A query.\n-- $x: never used\nSELECT 1", r"\$x"),
    ],
)
def test_query_files_that_are_not_in_order_are_refused(text: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        ReadyQuery.parse("odd", text)


def test_defaults_stand_in_the_text_for_views() -> None:
    query = ReadyQuery.parse("q", "-- A query.\n-- $a: one\n-- $b = it's: two\nSELECT $a, $b, $a")
    assert query.with_defaults() == "SELECT NULL, 'it''s', NULL"


def test_failures_are_counted_by_party_and_lack(home: Home) -> None:
    values = {"target": "desk", "task_id": "desk/1"}
    parties = {
        "t1": ("agent", "look", True),
        "t4": ("agent", "look", None),
        "t5": ("infrastructure", None, None),
    }
    Store(home.tables).write(
        [
            FailureCause.model_validate(
                {**values, "trajectory_id": run, "party": party, "capability": lack, "repaired": repaired}
            )
            for run, (party, lack, repaired) in parties.items()
        ],
        FailureCause,
    )
    found = rows(home, "failure_reasons")
    columns = ("party", "capability_name", "failures", "n", "share", "repaired", "n_replayed")
    assert pick(found, *columns) == [
        ("agent", "look first", 2, 3, 0.667, 1, 1),
        ("infrastructure", None, 1, 3, 0.333, 0, 0),
    ]
    assert (found[0]["low"], found[0]["high"]) == interval(2, 3)
    listed = rows(home, "failure_causes", party="agent")
    assert pick(listed, "trajectory_id", "policy", "repaired") == [
        ("t1", "agent", True),
        ("t4", "agent", None),
    ]
