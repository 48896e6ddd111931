import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from tests.training import piped_asset
from tests.training.piped_asset import container, containers, materialize, within
from trace_assets.errors import InputError
from trace_assets.orchestration.remote.container import (
    Sight,
    container_body,
    model_folders,
    training_container,
)
from trace_assets.orchestration.remote.launcher import elsewhere
from trace_assets.orchestration.remote.process import held_folder, sweep
from trace_assets.records import BaseCheckpoint, Environment, EnvironmentVerdict, TrainingPoint
from trace_assets.settings import Settings, Training
from trace_assets.store import Home, folder_version
from trace_assets.store.files import keep_environment_file
from trace_assets.study import Study
from trace_assets.targets.seeds import KEY_BYTES

docker = pytest.mark.docker
linux = pytest.mark.skipif(sys.platform != "linux", reason="lends a container this machine's own root")


@pytest.fixture(scope="module")
def image(docker_daemon: None) -> str:
    return piped_asset.make_image()


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "image" in request.fixturenames:
        assert not containers(os.getpid()), "a container outlived its step"


@docker
@linux
def test_what_is_wrong_is_one_sentence(image: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="the target has no tasks; ask for more"):
        materialize({"name": "refused"}, launcher=container(tmp_path))
    with pytest.raises(Exception, match=f"in a container of {image} ended with code 7 and without a result"):
        materialize({"name": "dies"}, launcher=container(tmp_path))
    with pytest.raises(Exception, match=r"there is no image nowhere:1 on the Docker daemon at unix://"):
        materialize({"name": "dies"}, launcher=container(tmp_path, image="nowhere:1"))
    with pytest.raises(Exception, match=r"could not start the training .*/no/python.*see training.image"):
        materialize({"name": "dies"}, launcher=container(tmp_path, ["/no/python"]))
    with pytest.raises(Exception, match=r"the training's container shall see /nothing, which is not there"):
        materialize({"name": "dies"}, launcher=container(tmp_path, readable=[Path("/nothing")]))


@docker
@linux
@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there are GPUs here")
def test_gpus_that_docker_cannot_give_are_one_sentence(image: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"could not start the training .*gpu.*see .*training.gpus"):
        materialize({"name": "dies"}, launcher=container(tmp_path, gpus="all"))


def test_a_daemon_that_is_not_here_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://far.away:2376")
    with pytest.raises(Exception, match=r"DOCKER_HOST is tcp://far.away:2376, and .* shares this machine's"):
        materialize({"name": "dies"}, launcher=container(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(Exception, match=r"no Docker daemon answers at unix://.*/none.sock"):
        materialize({"name": "dies"}, launcher=container(tmp_path))


@docker
@linux
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.ci
def test_a_killed_step_leaves_no_container_behind(
    image: str, project_root: Path, tmp_path: Path, processes: int
) -> None:
    pids = tmp_path / "pids"
    request = {"name": "hangs", "pids": str(pids), "processes": processes}
    code = (
        "from tests.training.piped_asset import *; "
        f"materialize({request!r}, launcher=container(Path({str(tmp_path)!r})))"
    )
    step = subprocess.Popen([sys.executable, "-c", code], cwd=project_root, stderr=subprocess.DEVNULL)
    try:
        assert within(lambda: pids.exists() and len(pids.read_text().split()) == 2 * processes, 600, step)
        assert len(containers(step.pid)) == 1
    finally:
        step.kill()
        step.wait()
    assert within(lambda: not containers(step.pid), 300), "the container outlived the step"


@docker
@linux
@pytest.mark.slow
def test_a_killed_daemon_takes_the_training_with_it(
    own_daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can remove nothing, and what it had started would go on: into the same folder as the next run."""
    monkeypatch.setenv("DOCKER_HOST", own_daemon)
    piped_asset.make_image()
    pids, daemon = tmp_path / "pids", Path(own_daemon.removeprefix("unix://")).with_name("docker.pid")
    launcher = container(tmp_path, [*piped_asset.PROGRAM, str(tmp_path)])
    found: list[int] = []

    def kill() -> None:
        assert within(pids.exists, 600)
        found.extend(started_with(str(tmp_path)))
        os.kill(int(daemon.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(Exception, match="the Docker daemon went away during the training in a container of"):
        materialize({"name": "hangs", "pids": str(pids)}, launcher=launcher)
    killer.join()
    assert len(found) == 1
    assert within(lambda: not any(map(piped_asset.runs, found)), 300), "it outlived daemon and step"


def started_with(argument: str) -> list[int]:
    """The processes of this machine, also those in containers, that were started with an argument."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if argument.encode() in path.read_bytes().split(b"\0"):
                pids.append(int(path.parent.name))
    return pids


def test_a_scratch_folder_of_the_dead_is_removed_and_no_other(tmp_path: Path) -> None:
    code = (
        "import os; from pathlib import Path; "
        "from trace_assets.orchestration.remote.process import held_folder; "
        f"held = held_folder(Path({str(tmp_path)!r})); held.__enter__(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (dead,) = tmp_path.iterdir()
    with held_folder(tmp_path) as held:
        assert dead.exists(), "it is younger than its maker may need"
        for folder in (dead, held):
            os.utime(folder, (0, 0))
        sweep(tmp_path)
        assert [*tmp_path.iterdir()] == [held]
    assert not [*tmp_path.iterdir()]


def test_a_user_without_a_name_here_can_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    body = container_body(
        command=["python3"],
        section=Training(image="trainer"),
        sight=Sight([], [], sandboxes=False),
        folder=tmp_path,
        socket=tmp_path / "docker.sock",
        environment={},
    )
    assert f"USER={os.getuid()}" in body["Env"]


def test_a_model_of_links_is_seen_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the hub's cache keeps them."""
    model, blobs, cache = tmp_path / "snapshots" / "1", tmp_path / "blobs", tmp_path / "cache"
    for folder in (model, blobs, cache):
        folder.mkdir(parents=True)
    (blobs / "f00").write_text("{}")
    (model / "config.json").symlink_to(blobs / "f00")
    assert model_folders(model) == [model, blobs]
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    assert model_folders(Path("Qwen/Qwen3-4B")) == [cache]


@docker
@linux
@pytest.mark.train
@pytest.mark.slow  # the quick ones: the same without a container in test_pipes.py, and a killed step above
def test_a_cancelled_training_leaves_no_container_and_goes_on_to_the_same_adapter(
    image: str, tmp_path: Path, base: Path, words: ModuleType
) -> None:
    pytest.importorskip("trl")
    from trace_assets.training.checkpoints import adapter_id

    folder = tmp_path / "words"
    request = {"name": "words", "base": str(base), "folder": str(folder), "pids": str(tmp_path / "pids")}
    launcher = container(tmp_path, readable=[base])

    def cancel(point: TrainingPoint) -> None:
        if point.iteration == 5:
            os.kill(os.getpid(), signal.SIGINT)  # as a cancelled run is told

    with pytest.raises((dg.DagsterExecutionInterruptedError, KeyboardInterrupt)):
        materialize({**request, "waits_at": 5}, cancel, launcher)
    assert not containers(os.getpid()), "the container outlived the cancelled step"
    assert not folder.exists()
    told: list[TrainingPoint] = []
    assert materialize(request, told.append, launcher)[0]["episodes"] == 480
    assert [point.iteration for point in told] == list(range(5, 13)), "it did not go on from the checkpoint"
    here, _ = words.train(base, tmp_path / "here")
    assert here.adapter_id == adapter_id(folder)


def a_study(home: Path, words: ModuleType, base: Path, **changes: Any) -> Study:
    """A home with the word model as its base, outside of it, and that environment."""
    section = words.SECTION.model_copy(
        update={"iterations": 2, "validate_every": 2, "mounts": tuple(piped_asset.lent()), **changes}
    )
    study = Study(Home.open(home), Settings(training=section))
    checkpoint = BaseCheckpoint(
        base_id=folder_version(base), path=str(base), parameters=1, steps=1, pass_rate=None,
        pass_rate_low=None, pass_rate_high=None, n=0,
    )  # fmt: skip
    study.store.write([checkpoint], BaseCheckpoint)
    environment = words.environment()
    study.store.write([environment], Environment, "words")
    # One key for all homes, so that one plays what the other does.
    keep_environment_file(study.home, environment.environment_id, "seeds", bytes(KEY_BYTES).hex())
    verdict = EnvironmentVerdict(capability_id="words", environment_id="e", accepted=True)
    study.store.write([verdict], EnvironmentVerdict, "words")
    return study


@pytest.mark.ci
def test_settings_that_cannot_work_are_one_sentence(tmp_path: Path, base: Path, words: ModuleType) -> None:
    study = a_study(tmp_path, words, base, launcher="docker")
    with pytest.raises(InputError, match=r"needs training.image: build one as"):
        training_container(study, "words")
    section = study.settings.training.model_copy(update={"image": "some"})
    sandbox = study.settings.sandbox.model_copy(update={"backend": "bubblewrap"})
    settings = study.settings.model_copy(update={"training": section, "sandbox": sandbox})
    with pytest.raises(InputError, match=r"'bubblewrap' do not go together"):
        training_container(Study(study.home, settings), "words")


@docker
@linux
@pytest.mark.train
@pytest.mark.slow
def test_a_capability_is_trained_in_a_container_with_its_sandboxes_beside_it(
    image: str, tmp_path: Path, base: Path, words: ModuleType
) -> None:
    pytest.importorskip("trl")
    from trace_assets.assets.adapter import make_adapter

    here = a_study(tmp_path / "here", words, base)
    there = a_study(tmp_path / "there", words, base, launcher="docker", image=image, python=sys.executable)
    # First, since it makes the sandbox's image where there is none yet; a container of that root cannot.
    same, _, _ = make_adapter(here, "words", lambda point: None)
    points: list[TrainingPoint] = []

    def train(context: dg.AssetExecutionContext) -> Any:
        placed = elsewhere(there, context)
        assert placed is not None
        return placed("words", points.append)

    (recomputed,) = piped_asset.in_a_step(train)
    assert [point.iteration for point in points] == [1, 2]
    assert points[0].sandbox_seconds, "it played without a sandbox"
    made, curve, _ = make_adapter(there, "words", points.append)
    assert len(points) == 2, "the step did not find the finished run"
    assert [point.iteration for point in curve] == [1, 2]
    assert recomputed.episodes > 0 and recomputed.unconfirmed == 0
    assert (made.isolation_level, made.recomputed) == ("docker", 0)
    assert same.adapter_id == made.adapter_id


@docker
@linux
@pytest.mark.train
@pytest.mark.slow
def test_several_processes_in_a_container_train_and_play_what_one_does(
    image: str, tmp_path: Path, base: Path, words: ModuleType
) -> None:
    pytest.importorskip("trl")
    from trace_assets.assets.adapter import make_adapter

    here = a_study(tmp_path / "here", words, base, tasks_per_iteration=4)
    there = a_study(
        *(tmp_path / "there", words, base),
        **{"tasks_per_iteration": 4, "processes": 2, "launcher": "docker"},
        **{"image": image, "python": sys.executable},
    )
    points: list[TrainingPoint] = []

    def train(context: dg.AssetExecutionContext) -> Any:
        placed = elsewhere(there, context)
        assert placed is not None
        return placed("words", points.append)

    (recomputed,) = piped_asset.in_a_step(train)
    made, curve, _ = make_adapter(there, "words", points.append)  # the step reads it alone
    same, alone, played = make_adapter(here, "words", lambda point: None)
    assert [point.iteration for point in points] == [1, 2]
    assert [point.reward_mean for point in curve] == [point.reward_mean for point in alone]
    assert (made.validation_before, made.validation_after) == (same.validation_before, same.validation_after)
    assert recomputed.episodes == played.episodes, "those of some processes are not counted"
