"""Several processes train one adapter: the one that a single process trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.settings import Training
from trace_assets.training.distributed import join_process_group, launch_command

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.training import together, word_target  # noqa: E402
from tests.training.pretend_vllm import PretendVllm  # noqa: E402
from tests.training.together import Trained, alone, ends, of_two, same  # noqa: E402
from trace_assets.training.checkpoints import read_curve  # noqa: E402
from trace_assets.training.pilot import pilot_section  # noqa: E402

pytestmark = pytest.mark.train
SECTION = together.SECTION.model_copy(update={"redraws": 2, "save_every": 1})


@pytest.fixture(scope="module")
def pair(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What two processes have trained, where half of the groups are dead and drawn anew."""
    folder = tmp_path_factory.mktemp("pair") / "words"
    adapter, points, told = together.finish(
        together.start(base, folder, of_two(SECTION), target="half"), folder
    )
    assert told == [point.iteration for point in points], "not each iteration was told once, by one process"
    return adapter, points, folder


@pytest.mark.ci
def test_two_processes_train_what_one_does(pair: Trained, base: Path, tmp_path: Path) -> None:
    single = alone(base, tmp_path / "words", SECTION, together.Half())
    assert any(point.redrawn_groups for point in single[1]), "nothing was drawn anew"
    assert any(point.live_groups for point in single[1]), "nothing was learnt"
    same(pair, single)
    assert all(
        point.sampler_difference is not None and point.sampler_difference < 1e-3
        for point in pair[1]
        if point.live_groups
    )
    assert sorted(file.name for file in pair[2].iterdir()) == sorted(
        file.name for file in single[2].iterdir()
    )
    assert not list(pair[2].parent.glob(".*")), "the run directory was left behind"


@pytest.mark.ci
def test_a_finished_run_of_several_is_read_by_one(pair: Trained, base: Path) -> None:
    """The step that started them goes on with what they have made."""
    again = alone(base, pair[2], of_two(SECTION), together.Half(), several=True)
    assert again == pair


@pytest.mark.slow
def test_one_that_is_killed_ends_all_and_the_next_run_goes_on(
    pair: Trained, base: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "words"
    run = together.start(base, folder, of_two(SECTION), target="half", die=(1, 2))
    error = run.communicate(timeout=900)[1]
    assert run.returncode == 137, error
    assert "process 1 of 2 was killed by signal 9" in error
    assert ends(run), "some of them live on"
    assert not folder.exists()
    kept = read_curve(tmp_path / ".words.work" / "curve.jsonl")
    assert [point.iteration for point in kept] == [1]
    again = together.start(base, folder, of_two(SECTION), target="half")
    adapter, points, told = together.finish(again, folder)
    assert told[0] == 2, "it did not go on from the checkpoint"
    assert len(points) == len(pair[1])
    assert adapter.adapter_id == pair[0].adapter_id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixture", "changes"),
    [(False, {}), (True, {}), (True, {"bf16": True, "gradient_checkpointing": True})],
    ids=["dense", "mixture", "mixture in bf16, checkpointing"],
)
def test_two_processes_on_one_server_train_what_one_does(
    mixture: bool, changes: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    if mixture:
        base = together.write_mixture(tmp_path / "mixture")
    with PretendVllm(base) as server:
        served = {"sampler": "server", "sampler_url": server.url, "save_every": 1, "iterations": 3}
        section = together.SECTION.model_copy(update=served | changes)
        single = alone(base, tmp_path / "single" / "words", section, word_target.WordTarget())
        assert any(point.live_groups for point in single[1]), "nothing was learnt"
        folder = tmp_path / "words"
        several = of_two(section)
        killed = together.start(base, folder, several, die=(0, 2))
        assert killed.wait(240) == 137
        adapter, points, told = together.finish(together.start(base, folder, several), folder)
    assert told[0] == 2, "it did not go on from the checkpoint"
    same((adapter, points, folder), single, 1e-3 if changes else 1e-4)


@pytest.mark.ci
def test_an_error_of_one_is_the_error_of_all(tmp_path: Path) -> None:
    program = (
        "import atexit, os, pathlib, torch.distributed\n"
        "from trace_assets.errors import InputError, Unavailable\n"
        "from trace_assets.settings import Training\n"
        "from trace_assets.training.distributed import join_process_group\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "def end():\n"
        "    left = not torch.distributed.is_initialized()\n"
        "    (folder / f'left-{process_group.rank}').write_text(str(left))\n"
        "atexit.register(end)\n"
        "process_group = join_process_group(Training(processes=2))\n"
        "def work():\n"
        "    if not process_group.first:\n"
        "        raise Unavailable('the server is gone; start it.')\n"
        "    return 1\n"
        "rank = process_group.rank\n"
        "said = [process_group.gather(rank), process_group.once(lambda: rank)]\n"
        "said.append(list(process_group.share(5)))\n"
        "try:\n"
        "    process_group.each(work)\n"
        "except Unavailable as error:\n"
        "    said.append(str(error))\n"
        "(folder / str(process_group.rank)).write_text(repr(said))\n"
    )
    (tmp_path / "process_group_program.py").write_text(program)
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    command = launch_command(Training(processes=2), sys.executable, "process_group_program")
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, timeout=900)
    gone = "the server is gone; start it."
    assert eval((tmp_path / "0").read_text()) == [[0, 1], 0, [0, 1], gone]
    assert eval((tmp_path / "1").read_text()) == [[0, 1], 0, [2, 3, 4], gone]
    # Left to the end of the process, gloo aborts one in ten: a training that has finished would have failed.
    assert [(tmp_path / f"left-{rank}").read_text() for rank in range(2)] == ["True", "True"]


@pytest.mark.parametrize(
    ("changes", "world", "says"),
    [
        ({"processes": 2}, None, "training.processes is 2 and this training runs in 1: choose"),
        ({}, "2", "training.processes is 1 and this training runs in 2"),
        ({"processes": 3}, "3", "training.processes = 3 does not divide the 4 tasks of an iteration"),
        ({"processes": 2, "loss_type": "grpo"}, "2", "several processes need 'dapo'"),
        ({"processes": 2, "micro_batch": 32}, "2", "does not divide the 16 episodes that each of 2"),
        ({"shard": True}, None, "set training.processes above 1"),
        ({"processes": 2, "shard": True}, "2", "training.shard needs training.sampler = 'server'"),
    ],
)
def test_what_cannot_be_shared_is_refused(
    changes: dict[str, Any], world: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if world:
        monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(InputError, match=says):
        join_process_group(SECTION.model_copy(update=changes))


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="processes is 2, one a GPU, and this machine shows 1: lower it"):
        join_process_group(SECTION.model_copy(update={"processes": 2}))


def test_a_pilot_is_played_by_the_step_alone() -> None:
    own = pilot_section(Training(processes=4, shard=True, sampler="server"))
    assert (own.processes, own.shard, own.sampler) == (1, False, "server")


def test_how_many_train_is_no_part_of_what_is_trained() -> None:
    several = Training(processes=8, shard=True, sampler="server")
    assert several.recipe() == Training(sampler="server").recipe()
    assert several.fingerprint() == Training(sampler="server").fingerprint()
