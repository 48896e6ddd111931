"""Processes that start together and end together, whatever ends one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from trace_assets.settings import Training
from trace_assets.training.distributed import launch_command

SECTION = Training(processes=3)


def start(folder: Path, program: str, section: Training = SECTION) -> subprocess.Popen[str]:
    (folder / "member.py").write_text(f"import os, sys, time, signal\nrank = os.environ['RANK']\n{program}\n")
    return subprocess.Popen(
        launch_command(section, sys.executable, "member"),
        env={**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}", "OUT": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def pids(folder: Path, count: int = 3) -> list[int]:
    """Wait until all have said their process ids."""
    until = time.monotonic() + 600
    while len(found := list(folder.glob("pid-*"))) < count:
        assert time.monotonic() < until, "not all of them started"
        time.sleep(0.02)
    return [int(file.name.removeprefix("pid-")) for file in found]


def all_gone(numbers: list[int]) -> bool:
    until = time.monotonic() + 600
    while any(Path(f"/proc/{number}").exists() for number in numbers):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


SAY = "open(f\"{os.environ['OUT']}/pid-{os.getpid()}\", 'w').close()\n"
ALL_SAID = (
    "import glob\n{0}while len(glob.glob(os.environ['OUT'] + '/pid-*')) < 3:\n{0}    time.sleep(0.02)\n"
).format
WAIT = SAY + "time.sleep(600)"


def test_they_know_their_numbers_and_where_to_meet(tmp_path: Path) -> None:
    program = (
        "world = ' '.join(os.environ[key] for key in ('WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR'))\n"
        "open(f\"{os.environ['OUT']}/{rank}\", 'w').write(f\"{world} {os.environ['MASTER_PORT']}\")"
    )
    member = start(tmp_path, program)
    assert member.wait(300) == 0
    said = [(tmp_path / str(rank)).read_text().split() for rank in range(3)]
    assert [words[:3] for words in said] == [["3", str(rank), "127.0.0.1"] for rank in range(3)]
    assert len({words[3] for words in said}) == 1


def test_one_that_is_killed_ends_all(tmp_path: Path) -> None:
    program = (
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SAY}\n"
        f"if rank == '1':\n    {ALL_SAID('    ')}    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(600)"
    )
    member = start(tmp_path, program)
    numbers = pids(tmp_path)
    error = member.communicate(timeout=900)[1]
    assert member.returncode == 137
    assert "process 1 of 3 was killed by signal 9" in error and "finished iterations are kept" in error
    assert all_gone(numbers), "one that does not heed SIGTERM lives on"


def test_others_have_time_to_say_why_they_fail_too(tmp_path: Path) -> None:
    first = tmp_path / "1"
    program = (
        f"{SAY}\n{ALL_SAID('')}\n"
        f"def first():\n    return os.path.exists({str(first)!r}) and open({str(first)!r}).read()\n"
        # The launcher has seen it end: only then is its entry gone.
        "while rank != '1' and not ((pid := first()) and not os.path.exists(f'/proc/{pid}')):\n"
        "    time.sleep(0.02)\n"
        "open(f\"{os.environ['OUT']}/{rank}\", 'w').write(str(os.getpid()))\n"
        "sys.exit(2 if rank != '1' else 3)"
    )
    member = start(tmp_path, program)
    error = member.communicate(timeout=900)[1]
    assert member.returncode == 3
    assert "process 1 of 3 ended with code 3" in error
    assert sorted(file.name for file in tmp_path.iterdir() if file.name in "012") == ["0", "1", "2"]


def test_a_launcher_that_is_asked_to_end_asks_all(tmp_path: Path) -> None:
    member = start(tmp_path, WAIT)
    numbers = pids(tmp_path)
    member.terminate()
    assert member.wait(300) == 143
    assert all_gone(numbers)


def test_a_launcher_that_is_killed_takes_all_with_it(tmp_path: Path) -> None:
    member = start(tmp_path, WAIT)
    numbers = pids(tmp_path)
    assert {os.getpgid(number) for number in numbers} == {member.pid}, "not in the launcher's group"
    member.kill()
    member.wait()
    assert all_gone(numbers)


def test_it_ends_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    """Also when that one died before the launcher could ask to be told."""
    (tmp_path / "member.py").write_text(WAIT)
    command = launch_command(SECTION, sys.executable, "member")
    command[command.index("--parent") + 1] = str(os.getpid() + 1)
    assert subprocess.run(command, cwd=tmp_path, timeout=900).returncode == 128 + signal.SIGTERM


def test_one_process_needs_no_launcher() -> None:
    assert launch_command(Training(), "python3", "a.b") == ["python3", "-m", "a.b"]
