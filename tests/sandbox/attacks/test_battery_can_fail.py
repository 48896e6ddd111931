"""The battery sees what is wrong: harmless attacks without isolation, and outcomes made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool, open_pool
from trace_assets.sandbox.selftest.attack import Attack, Played, load_attacks
from trace_assets.sandbox.selftest.runner import Runner, run_attacks

ATTACKS = {one.name: one for one in load_attacks()}


def play(pool: SandboxPool, attack: Attack) -> Played:
    return Runner(pool).play(attack)


@pytest.mark.parametrize(
    ("name", "outcome", "effect"),
    [
        ("host_file", "escaped", ""),
        ("host_ports", "escaped", "reached a port of the host"),
        ("abstract_socket", "escaped", "connected to an abstract socket of the host"),
        ("path_traversal", "escaped", ""),
    ],
)
def test_without_isolation_an_escape_is_seen(
    no_isolation: SandboxPool, name: str, outcome: str, effect: str
) -> None:
    played = play(no_isolation, ATTACKS[name])
    assert (played.status, played.outcome) == ("fail", outcome), played
    assert effect in " ".join(played.effects)


def test_what_is_not_harmless_is_not_played_without_isolation(no_isolation: SandboxPool) -> None:
    records = run_attacks(no_isolation, [one for one in load_attacks() if not one.harmless])
    assert {one.status for one in records} == {"skip"} and all(one.detail for one in records)


def made(code: str, *expected: str, place: str = "step", **fields: object) -> Attack:
    row = {"name": "made", "group": "integrity", "tries": "For this test.", "harmless": True, **fields}
    return Attack.model_validate({**row, "expected": expected, "code": {place: code}})


@pytest.mark.parametrize(
    ("attack", "outcome"),
    [
        (made("pass", "contained"), "idle"),
        (made("attempt('x', lambda: undefined)", "contained"), "broken"),
        (made("attempt('x', lambda: 'it worked')", "contained"), "escaped"),
        (made("raise NameError('a mistake')", "environment", says="SystemExit"), "environment"),
        (made("return PAID", "contained", place="verdict"), "paid"),
        (made("os._exit(0)", "timeout"), "died exit 0"),
        (made("while True: pass", "died"), "timeout"),
        (
            made(
                "attempt('x', lambda: 'out') if STATE['seed'] == 1 else note('x', 'no')",
                "contained",
                copies=2,
            ),
            "escaped",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_pass(no_isolation: SandboxPool, attack: Attack, outcome: str) -> None:
    played = play(no_isolation, attack)
    assert (played.status, played.outcome) == ("fail", outcome), played


def test_a_file_on_the_host_is_seen_and_removed(no_isolation: SandboxPool) -> None:
    code = "attempt('x', lambda: os.mkfifo('/tmp/@MARK@'), lambda value: False)"
    before = set(Path("/tmp").glob("trace-attack-*"))
    played = play(no_isolation, made(code, "contained", wall="container"))
    assert played.status == "fail" and "a file of the attack is on the host" in played.effects[0]
    assert set(Path("/tmp").glob("trace-attack-*")) <= before


def test_a_process_that_outlives_its_sandbox_is_seen(no_isolation: SandboxPool) -> None:
    """Without isolation a child lives on when its sandbox is killed, here for twenty seconds."""
    code = (
        "if os.fork() == 0:\n    os.setsid()\n    import time\n    time.sleep(20)\n    os._exit(0)\n"
        "note('child', 'started')"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_assets.sandbox.selftest.host._PATIENCE", 0.5)
        played = play(no_isolation, made(code, "contained", wall="container"))
    if "started" not in played.detail:
        pytest.skip("this user may not fork where the worker sets its limit to 0")
    assert played.status == "fail" and any("still runs" in one for one in played.effects), played


def test_what_reaches_the_next_episode_is_seen(
    no_isolation: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An honest next episode is told from one that shows or earns anything else."""
    monkeypatch.setattr("trace_assets.sandbox.selftest.runner.CLEAN_OBSERVATION", "something else")
    played = play(no_isolation, ATTACKS["patched_worker"])
    assert played.status == "fail" and "the next episode in the same sandbox shows" in played.effects[0]


def test_a_sandbox_that_lets_go_late_is_seen(
    no_isolation: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_assets.sandbox.selftest.runner.MAX_CONTROL_MS", -1.0)
    played = play(no_isolation, made("while True: pass", "timeout", deadline=0.2))
    assert played.status == "fail" and "after the deadline" in played.effects[0]


def test_a_worker_without_its_checks_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a host that reads replies as plain JSON the forged ones count, and the battery says so."""
    import json

    monkeypatch.setattr("trace_assets.sandbox.sandbox.parse", json.loads)
    monkeypatch.setattr(
        "trace_assets.sandbox.sandbox.open_reply", lambda line, number: ("ok", json.loads(line).get("ok"))
    )
    with pytest.warns(UserWarning, match="isolates nothing"):
        pool = open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0))
    with pool:
        for name in ("repeated_key", "id_as_text", "id_as_true", "id_as_float", "result_and_error"):
            played = play(pool, ATTACKS[name])
            assert (played.status, played.outcome) == ("fail", "paid"), played
