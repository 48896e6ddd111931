"""The stage `environment` with a model behind a local server: audit, mending, money, memory, secrets."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.llm.chat_server import Body
from tests.environments.writers.conftest import NAME, Make
from tests.environments.writers.executed_code import watched
from tests.environments.writers.recorded_server import RecordedServer, Said, fenced
from trace_assets.assets import environment
from trace_assets.assets.asset import StageResult
from trace_assets.assets.environment import write_capability_environment
from trace_assets.environments.writers.reply import find_module
from trace_assets.errors import CheckFailed, InputError, TraceError, Unavailable
from trace_assets.records import (
    CapabilitySpec,
    Environment,
    EnvironmentCheck,
    EnvironmentVersion,
    Label,
    LedgerEntry,
)
from trace_assets.settings import load_settings
from trace_assets.study import Study

KEY = "sk-averysecretkey9876543210"

pytestmark = pytest.mark.filterwarnings("ignore:.*isolates nothing")


def short(source: str) -> str:
    """The oracle does only half of its work."""
    assert source.count("def oracle(seed):") == 1
    whole = source.replace("def oracle(seed):", "def _whole(seed):")
    return whole + "\n\ndef oracle(seed):\n    return _whole(seed)[:1]\n"


def versions(study: Study) -> list[EnvironmentVersion]:
    return study.store.read(EnvironmentVersion, NAME)


@pytest.mark.slow
def test_from_refusal_over_bad_code_to_an_accepted_environment_and_never_asked_again(
    whole_reply: str,
    make_study: Make,
    specs: dict[str, CapabilitySpec],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = find_module(whole_reply).source
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    half = whole_reply[:4000]
    replies = [
        Said(None, refusal="I'm sorry, I cannot help with that."),
        fenced(good.replace("def verdict", "def verdict(:")),
        fenced(short(good)),
        Said(half, finish="length"),
        whole_reply[half.rindex("\n") + 1 :],  # a line that was cut is written again
    ]
    with RecordedServer(replies, rate=0.3, key=KEY, seed=3) as server:
        prices = {"writer.prompt_usd": 1.0, "writer.completion_usd": 4.0, "writer.cap_usd": 5}
        study = make_study(server.url, **prices)
        free = {"detector": None, "detector_args": {}, "name": "Read the return window before refunding"}
        study.store.write([specs["write_without_read"].model_copy(update=free)], CapabilitySpec, NAME)
        result = write_capability_environment(study, NAME)
        assert server.given == 5 and sum(n for kind, n in server.seen.items() if kind != "ok") > 0
        rows = versions(study)
        assert [one.reply for one in rows] == ["refusal", "module", "module", "module"]
        assert [one.accepted for one in rows] == [False, False, False, True], rows[-1].failed
        told = [one.check_id for one in rows[2].failed if one.severity == "error"]
        assert told and all(name.split(".")[0] in ("runtime", "semantic", "trace") for name in told)
        assert rows[3].source == good and rows[3].isolation_level == "none"
        asked = [body["messages"] for body in server.bodies]
        assert all(f'"check": "{name}"' in asked[-1][1]["content"] for name in told)
        assert "Transcript 1 lacks the capability, see messages 2" in asked[0][1]["content"]
        assert "shows the capability" in asked[0][1]["content"]
        _no_key_in(study, caplog.text, json.dumps(server.bodies))
        again = write_capability_environment(study, NAME)
        assert len(server.bodies) == len(asked), "a re-run asks nothing"
    environment = study.store.read(Environment, NAME)[0]
    assert (environment.source, environment.writer, environment.n_versions) == (good, "model:m", 4)
    # Tries that may have been charged without an answer are booked at the highest price, beside the five.
    uncertain = int(result.figures.get("calls_at_highest_price", 0))
    assert result.checks[0].passed and int(result.figures["model_calls"]) - uncertain == 5
    assert again.version == result.version and versions(study) == rows
    assert again.figures["remembered_answers"] == 4 and again.cost_usd == 0
    spent = [row for row in study.store.read(LedgerEntry) if row.cost_usd]
    assert {(row.stage, row.asset, row.partition) for row in spent} == {("synthesis", "environment", NAME)}
    assert sum(row.cost_usd for row in spent) == pytest.approx(
        float(result.figures["cost_usd"] or 0), abs=1e-6
    )
    assert len(result.tables["versions"]) == 4 and "version 2" in result.pages


def _no_key_in(study: Study, *texts: str) -> None:
    for text in texts:
        assert KEY not in text
    for file in study.home.path.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


@pytest.mark.slow
def test_giving_up_is_recorded_with_the_best_version_which_the_audit_then_rejects(
    good: str, make_study: Make
) -> None:
    with RecordedServer([fenced(short(good)), "no code at all, sorry"]) as server:
        study = make_study(server.url)
        result = write_capability_environment(study, NAME)
        assert server.given == 6
        write_capability_environment(study, NAME)
        assert server.given == 6, "giving up is remembered too"
    check = result.checks[0]
    assert (check.passed, check.severity) == (False, "warning")
    first = next(one for one in versions(study)[0].failed if one.severity == "error")
    assert "given up after 5 rounds" in check.detail and first.check_id in check.detail
    environment = study.store.read(Environment, NAME)[0]
    assert environment.source == short(good) and environment.n_versions == 6
    assert [one.kept for one in versions(study)] == [True] + [False] * 5
    assert versions(study)[-1].outcome == check.detail


def test_nothing_but_refusals_leaves_no_environment_and_the_reason(make_study: Make) -> None:
    with RecordedServer(["I'm sorry, I can't help with that."]) as server:
        study = make_study(server.url)
        result = write_capability_environment(study, NAME)
    assert result.figures["refused"] is True and study.store.read(Environment, NAME) == []
    assert "no reply held a module" in result.checks[0].detail
    assert len(versions(study)) == 6


@pytest.mark.slow
def test_code_in_a_reply_never_runs_in_the_process_that_asks_for_it(
    good: str, make_study: Make, tmp_path: Path
) -> None:
    marker, sentinel = tmp_path / "ran", "SENTINEL-4711"
    attack = f"import os\nopen({str(marker)!r}, 'a').write(f'{{os.getpid()}} ')\nX = {sentinel!r}\n"
    sneaky = good + f"\nX = {sentinel!r}\n"
    with watched(sentinel) as runs:
        exec(compile(f"X = {sentinel!r}", "<control>", "exec"), {})
        assert runs() == 1, "the watch sees what is run here"
        with RecordedServer([fenced(attack + good), fenced(attack), fenced(sneaky)]) as server:
            study = make_study(server.url)
            result = write_capability_environment(study, NAME)
        assert runs() == 1, "code of a reply ran in the writer's process"
    assert result.checks[0].passed and study.store.read(Environment, NAME)[0].source == sneaky
    assert {one.check_id for one in versions(study)[0].failed} >= {"trace.imports_allowed"}
    assert not marker.exists(), "what imports a forbidden module is not run at all"


@pytest.mark.usefixtures("quick_audit")
def test_a_server_that_goes_away_costs_nothing_that_was_answered(good: str, make_study: Make) -> None:
    with RecordedServer([fenced(short(good))]) as server:
        first = make_study(server.url, **{"writer.cap_calls": 1})
        with pytest.raises(CheckFailed, match="cap on spending"):
            write_capability_environment(first, NAME)
        assert server.given == 1 and len(versions(first)) == 1
    gone = make_study("http://127.0.0.1:9/v1", **{"writer.retries": 0})
    with pytest.raises(Unavailable, match=r"mend writer\.base_url"):
        write_capability_environment(gone, NAME)
    with RecordedServer([fenced(good)]) as server:
        result = write_capability_environment(make_study(server.url), NAME)
        assert result.checks[0].passed and server.given == 1, "only the second question was still open"
    assert [one.accepted for one in versions(gone)] == [False, True]


@pytest.mark.usefixtures("quick_audit")
def test_a_cap_in_dollars_is_never_exceeded(good: str, make_study: Make) -> None:
    prices = {"writer.prompt_usd": 1.0, "writer.completion_usd": 4.0, "writer.reply_tokens": 4000}
    with RecordedServer([fenced(short(good))]) as server:
        study = make_study(server.url, **prices, **{"writer.cap_usd": 0.15})
        with pytest.raises(CheckFailed, match="cap on spending"):
            write_capability_environment(study, NAME)
        assert server.given >= 1
    spent = sum(row.cost_usd for row in study.store.read(LedgerEntry))
    assert 0 < spent <= 0.15


@pytest.mark.usefixtures("quick_audit")
def test_a_model_needs_a_name_and_a_server(make_study: Make) -> None:
    with pytest.raises(InputError, match=r"set writer\.base_url"):
        write_capability_environment(make_study(), NAME)
    with pytest.raises(InputError, match=r"set synthesis\.model"):
        write_capability_environment(make_study(**{"synthesis.model": '""'}), NAME)
    with RecordedServer([""], key="right") as server, pytest.raises(TraceError, match="refuses the key"):
        write_capability_environment(make_study(server.url), NAME)


@pytest.mark.usefixtures("quick_audit")
def test_auto_takes_the_recipe_where_one_fits_and_the_model_elsewhere(
    good: str, make_study: Make, specs: dict[str, CapabilitySpec]
) -> None:
    def write(study: Study, **changes: Any) -> StageResult:
        spec = specs["write_without_read"].model_copy(update=changes)
        study.store.write([spec], CapabilitySpec, NAME)
        return write_capability_environment(study, NAME)

    with RecordedServer([fenced(good)]) as server:
        study = make_study(server.url, **{"synthesis.writer": "auto"})
        assert write(study).figures["writer"] == "recipe:write_without_read" and not server.bodies
        assert [one.outcome for one in versions(study)] == ["written from a recipe."]
        result = write(study, detector=None, detector_args={})
        assert result.figures["writer"] == "model:m" and "no recipe writes" in str(
            result.figures["no_recipe"]
        )
    alone = make_study(**{"synthesis.writer": "auto", "synthesis.model": '""'}, home="alone")
    refused = write(alone, detector=None, detector_args={})
    assert refused.figures["refused"] and "no recipe writes" in refused.checks[0].detail


@pytest.mark.usefixtures("quick_audit")
def test_later_labels_do_not_ask_anew(good: str, make_study: Make) -> None:
    with RecordedServer([fenced(good)]) as server:
        study = make_study(server.url)
        write_capability_environment(study, NAME)
        labels = study.store.read(Label)
        study.store.write([one.model_copy(update={"evidence": (3,)}) for one in labels], Label, "embedded")
        write_capability_environment(study, NAME)
        assert server.given == 1
        write_capability_environment(make_study(server.url, **{"synthesis.seed": 1}), NAME)
        assert server.given == 2, "another seed asks for another draft"


def test_what_is_not_said_for_the_writer_is_as_for_the_analyst() -> None:
    plain = load_settings(None, ["analyst.base_url=http://a/v1", "analyst.cap_usd=3", "writer.retries=1"])
    section = plain.writer_server
    assert (section.base_url, section.cap_usd, section.retries) == ("http://a/v1", 3.0, 1)
    other = load_settings(None, ["analyst.base_url=http://a/v1", "writer.base_url=http://w/v1"])
    assert other.writer_server.base_url == "http://w/v1"
    assert (section.reply_tokens, plain.analyst.reply_tokens) == (32768, 8192), "a module is long"
    assert section.timeout_seconds > plain.analyst.timeout_seconds
    short = load_settings(None, ["analyst.reply_tokens=500", "analyst.timeout_seconds=5"]).writer_server
    assert (short.reply_tokens, short.timeout_seconds) == (500, 5.0)


WORK = """
import sys
from trace_assets.settings import load_settings
from trace_assets.assets.environment import write_capability_environment
from trace_assets.store import Home
from trace_assets.study import Study
settings = load_settings(None, sys.argv[3:])
write_capability_environment(Study(Home.open(sys.argv[1]), settings), sys.argv[2])
"""


@pytest.mark.ci
def test_a_killed_process_goes_on_where_it_was_and_asks_nothing_twice(
    good: str, make_study: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, killed = threading.Event(), threading.Event()

    def slow(body: Body) -> Said:
        if "This is round" not in body["messages"][1]["content"]:
            return Said(fenced(short(good)))
        asked.set()
        killed.wait(600)
        return Said("too late")

    with RecordedServer(slow) as server:
        study = make_study(server.url)
        settings = ["synthesis.writer=model", "synthesis.model=m", "synthesis.audit_seeds=8"]
        settings += ["synthesis.mend_with_base=false", "sandbox.backend=unsafe-subprocess"]
        settings += [f"writer.base_url={server.url}"]
        command = [sys.executable, "-W", "ignore", "-c", WORK, str(study.home.path), NAME, *settings]
        process = subprocess.Popen(command)
        assert asked.wait(900)
        process.send_signal(signal.SIGKILL)
        process.wait(600)
        killed.set()
        assert len(versions(study)) == 1 and not study.store.partitions(Environment)
        audited = []
        monkeypatch.setattr(
            environment, "audit", lambda *a, **k: audited.append(a[0].source) or _accepting(a[0])
        )
        server.replies = [fenced(good)]
        server.given = 0
        before = len(server.bodies)
        result = write_capability_environment(study, NAME)
        assert (
            len(server.bodies) == before + 1
            and server.bodies[-1]["messages"] == server.bodies[-2]["messages"]
        )
    assert result.checks[0].passed and [one.accepted for one in versions(study)] == [False, True]
    assert audited == [good], "the first version's findings were kept"


def _accepting(environment: Environment) -> list[EnvironmentCheck]:
    return [
        EnvironmentCheck(
            environment_id=environment.environment_id,
            capability_id=environment.capability_id,
            check_id=name,
            level="semantic",
            status="pass",
            severity="error",
        )
        for name in ("semantic.oracle_max", "semantic.floor_gap")
    ]


@pytest.mark.ci
def test_the_base_policy_plays_only_drafts_with_nothing_else_against_them(
    good: str, make_study: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[bool] = []

    def audit(
        environment: Environment, *_: Any, late_policy: Any = None, **__: Any
    ) -> list[EnvironmentCheck]:
        rows = _accepting(environment)
        if "_whole(" in environment.source:
            rows[0] = rows[0].model_copy(update={"status": "fail", "evidence": "falls short"})
        else:
            assert late_policy() == "the base policy"
            played.append("# harder" in environment.source)
            easy = {
                "check_id": "trace.pass_band",
                "status": "pass" if played[-1] else "fail",
                "evidence": "easy",
            }
            rows.append(rows[0].model_copy(update=easy))
        return rows

    monkeypatch.setattr(environment, "audit", audit)
    monkeypatch.setattr(environment, "open_policy", lambda study: "the base policy")
    replies = [fenced(short(good)), fenced(good), fenced(good + "# harder\n")]
    with RecordedServer(replies) as server:
        study = make_study(server.url, **{"synthesis.mend_with_base": "true"})
        result = write_capability_environment(study, NAME)
        assert '"check": "trace.pass_band"' in server.bodies[2]["messages"][1]["content"]
    assert played == [False, True] and result.checks[0].passed
    failed = [[one.check_id for one in row.failed] for row in versions(study)]
    assert failed == [["semantic.oracle_max"], ["trace.pass_band"], []]


@pytest.mark.usefixtures("quick_audit")
def test_without_a_base_model_drafts_are_not_played_and_the_asset_says_so(
    good: str, make_study: Make
) -> None:
    with RecordedServer([fenced(good)]) as server:
        study = make_study(server.url, **{"synthesis.mend_with_base": "true"})
        result = write_capability_environment(study, NAME)
    assert result.checks[0].passed and "no base model" in str(result.figures["remarks"])
