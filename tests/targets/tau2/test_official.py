"""How tau2's own program is kept: started, watched, ended with its group, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_assets.errors import InputError, Unavailable
from trace_assets.targets.tau2.official import Model, OfficialRun, OfficialSimulation, play_officially

RUN = OfficialRun(
    domain="airline",
    solo=False,
    agent=Model("mine", "http://127.0.0.1:1/v1", {"temperature": 0.0, "max_tokens": 64}),
    user=Model("gpt-4.1", "", {"temperature": 0.0}),
    trials=2,
)
Play = Callable[..., dict[tuple[str, int], OfficialSimulation]]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Where an interpreter would be, tau2's program beside it."""
    program = tmp_path / "bin" / "tau2"
    program.parent.mkdir()
    source = Path(__file__).with_name("pretend_tau2.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {source} "$@"\n')
    program.chmod(0o755)
    return program.with_name("python")


@pytest.fixture
def play(python: Path, tmp_path: Path) -> Play:
    def begin(
        *tasks: str, fault: str = "", patience: float = 60.0
    ) -> dict[tuple[str, int], OfficialSimulation]:
        variables = {"PRETEND_FAULT": fault}
        return play_officially(
            RUN, tasks, tmp_path / "run", python=python, variables=variables, patience=patience
        )

    return begin


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody waited for has, too."""
    for _ in range(2400):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_what_is_finished_is_not_played_again_and_fewer_tasks_may_be_asked_for(
    play: Play, tmp_path: Path
) -> None:
    assert set(play("1", "2")) == {("1", 0), ("1", 1), ("2", 0), ("2", 1)}
    file = tmp_path / "run" / "results.json"
    first = {one["pid"] for one in json.loads(file.read_text())["simulations"]}
    found = play("3")
    assert set(found) == {("3", 0), ("3", 1)} and found["3", 1].reward == 1.0
    rows = json.loads(file.read_text())
    assert [task["id"] for task in rows["tasks"]] == ["1", "2", "3"]  # tau2 refuses to lose tasks
    assert {one["pid"] for one in rows["simulations"] if one["task_id"] != "3"} == first


def test_a_failure_is_told_by_its_own_words_and_what_finished_is_kept(play: Play, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"ended with code 3: ValueError: Tasks were modified: \['7'\]; "):
        play("1", fault="fails")
    assert len(json.loads((tmp_path / "run" / "results.json").read_text())["simulations"]) == 2
    with pytest.raises(Unavailable, match="left 2 conversations out"):
        play("1", "2", fault="leaves_out")


def test_a_program_that_gets_nowhere_is_killed_with_its_children(play: Play, tmp_path: Path) -> None:
    with pytest.raises(
        Unavailable, match=r"finished no conversation in 6 s and was killed.+; 1 conversations"
    ):
        play("1", "2", fault="hangs", patience=6.0)
    pids = [int(word) for word in (tmp_path / "run" / "pids").read_text().split()]
    assert all(gone(pid) for pid in pids)
    assert len(play("1", "2")) == 4


def test_it_ends_with_whoever_asked_for_it(python: Path, tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from tests.targets.tau2.test_official import RUN
        from trace_assets.targets.tau2.official import play_officially
        folder, python = Path(sys.argv[1]), Path(sys.argv[2])
        play_officially(RUN, ["1"], folder, python=python, variables={"PRETEND_FAULT": "hangs"})
        """
    )
    root = Path(__file__).resolve().parents[3]
    keeper = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run"), str(python)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    pids = tmp_path / "run" / "pids"
    try:
        for _ in range(6000):
            if pids.is_file() and pids.read_text():
                break
            assert keeper.poll() is None
            time.sleep(0.05)
        program, child = (int(word) for word in pids.read_text().split())
        keeper.send_signal(signal.SIGKILL)
        assert keeper.wait() == -signal.SIGKILL
        assert gone(program)
    finally:
        keeper.kill()
        keeper.wait()
        os.kill(child, signal.SIGKILL)


def test_what_cannot_be_begun_says_so(play: Play, python: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text('{"tasks": [')
    with pytest.raises(InputError, match="is not a results file of tau2-bench"):
        play("1")
    python.with_name("tau2").unlink()
    with pytest.raises(Unavailable, match="own program is not beside"):
        play("1")


def test_arguments_hold_the_address_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    words = RUN.arguments(tmp_path, ["1", "2"])
    assert words[words.index("--agent-llm") + 1] == "openai/mine"
    options = json.loads(words[words.index("--agent-llm-args") + 1])
    assert options == {"temperature": 0.0, "max_tokens": 64, "api_base": "http://127.0.0.1:1/v1"}
    assert words[words.index("--user-llm") + 1] == "gpt-4.1"
    assert words[-3:] == ["--task-ids", "1", "2"]
    assert "sk-secret" not in " ".join(words)
    theirs = Model("openai/gpt-oss-20b", "http://127.0.0.1:1/v1").arguments("agent")
    assert theirs[1] == "openai/openai/gpt-oss-20b"  # the server's name is the whole of it
    alone = OfficialRun("telecom", True, RUN.agent, None).arguments(tmp_path, ["1"])
    who = [alone[alone.index(flag) + 1] for flag in ("--agent", "--user")]
    assert who == ["llm_agent_solo", "dummy_user"]
    assert "--user-llm" not in alone


def test_the_seeds_of_trials_are_drawn_as_tau2_draws_them() -> None:
    # The published results were run with seed 300, and their first trial bears the first of these.
    assert OfficialRun("airline", False, RUN.agent, RUN.user, trials=2).seeds() == [626729, 373753]
