"""Training with episodes that a server plays: it has the right weights, or somebody is told."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.records import Adapter, Message, Task, TrainingPoint
from trace_assets.targets.protocol import Step

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from peft import get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from tests.training.pretend_vllm import FAULTS, PretendVllm  # noqa: E402
from trace_assets.policies.openai_connection import Retries  # noqa: E402
from trace_assets.training.adapter_sync import Uploads  # noqa: E402
from trace_assets.training.checkpoints import lora_config, write_adapter  # noqa: E402
from trace_assets.training.server_sampler import ServerSampler  # noqa: E402
from trace_assets.training.validation import readings  # noqa: E402

pytestmark = pytest.mark.train
HERE = Path(__file__).parent


def section_of(words: ModuleType, url: str, **changes: Any) -> Any:
    short = {"iterations": 3, "validate_every": 3, "save_every": 1, "validation_episodes": 10}
    return words.SECTION.model_copy(update={"sampler": "server", "sampler_url": url, **short, **changes})


def train(
    words: ModuleType,
    base: Path,
    folder: Path,
    section: Any,
    on_point: Callable[[TrainingPoint], None] | None = None,
) -> tuple[Adapter, list[TrainingPoint]]:
    trained: tuple[Adapter, list[TrainingPoint]] = words.train(
        base, folder, section=section, on_point=on_point
    )
    return trained


@pytest.fixture(scope="module")
def served(
    words: ModuleType, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Adapter, list[TrainingPoint], PretendVllm, Any]:
    """A training on a server that does all it says."""
    with PretendVllm(base) as server:
        section = section_of(words, server.url)
        adapter, points = train(words, base, tmp_path_factory.mktemp("served") / "words", section)
    return adapter, points, server, section


@pytest.mark.ci
def test_the_server_is_given_every_step_and_agrees_with_the_trainer(served: Any) -> None:
    adapter, points, server, section = served
    assert adapter.iterations == 3
    assert max(point.sampler_difference for point in points) < 1e-5
    assert adapter.validation_after > adapter.validation_before
    assert not [one.says for one in readings(points, section) if not one.sound]
    # A trial, weights before each step, after the last, and the best once more where they are not the last.
    assert len(set(server.loaded)) == 5
    assert len(server.loaded) in (5, 6)
    assert set(server.asked) - {"base"} == set(server.loaded)
    assert server.adapters == {}, "an adapter was left with the server"
    assert server.reads_at_steps == 0, "a folder was read again at every step"


@pytest.mark.ci
def test_what_was_demonstrated_is_what_the_server_acts_with(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    """The oracle asks no server; GRPO goes on from what was learned, and the server has that."""
    with PretendVllm(base) as server:
        section = section_of(words, server.url)
        adapter, points = words.train(
            base, tmp_path / "words", target=words.Taught(), section=section, warm_start=True
        )
        assert adapter.demonstrations == 5 and adapter.not_demonstrated == ""
        assert points[0].success_rate > 0.6, "the first iteration was played without what was demonstrated"
        assert max(point.sampler_difference for point in points) < 1e-5
        plain, _ = words.train(base, tmp_path / "plain", section=section, warm_start=True)
        assert plain.not_demonstrated and plain.rollouts == 3 * 40


def test_a_name_that_a_killed_training_left_stands_for_the_new_folder(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora_config(words.SECTION))
    gone, here = tmp_path / "gone", tmp_path / "here"
    for folder in (gone, here):
        write_adapter(model, folder, "base")
    with PretendVllm(base) as server:
        uploads = Uploads([server.url])
        uploads.load("training@0f3a", gone)
        shutil.rmtree(gone)
        uploads.load("training@0f3a", here)
        assert server.loaded == ["training@0f3a"] * 2 and list(server.adapters) == ["training@0f3a"]
        assert server.read_again == set()


def test_the_sampler_is_part_of_what_decides_the_adapter(words: ModuleType) -> None:
    section = section_of(words, "http://127.0.0.1:1/v1")
    plain = section.model_copy(update={"sampler": "transformers"})
    assert section.recipe()["sampler"] == "server"
    assert "sampler" not in plain.recipe()
    assert section.recipe() == section.model_copy(update={"sampler_url": "http://elsewhere/v1"}).recipe()
    assert plain.fingerprint() == plain.model_copy(update={"sampler_command": "vllm"}).fingerprint()


@pytest.mark.ci
@pytest.mark.parametrize("fault", ["skips_later", pytest.param("stale", marks=pytest.mark.slow)])
def test_a_server_with_other_weights_is_noticed(
    fault: str, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    with PretendVllm(base, fault=fault) as server:
        section = section_of(words, server.url)
        _, points = train(words, base, tmp_path / "words", section)
    assert points[0].sampler_difference < 1e-5, "a LoRA begins as the base model"
    assert points[-1].sampler_kl > 0.01
    assert "sampler_kl" in {one.name for one in readings(points, section) if not one.sound}


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("skips", r"took an adapter that changes every layer and goes on as without it"),
        ("refuses", r"does not take the adapter \(HTTP 500: LoRA rank 8 is greater than max_lora_rank 4"),
        ("no_endpoint", r"start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"),
        ("locked", r"refuses the key \(HTTP 401\): set OPENAI_API_KEY"),
        ("fails", r"fails \(HTTP 500: EngineDeadError\): look at its log"),
        ("cannot_see", r"cannot read the adapter in .*sampler.*same path"),
        ("no_ids", r"reports no token ids and log-probabilities .* vLLM 0\.22"),
        ("raw", r"before temperature, and training.temperature is 0\.7: .* processed_logprobs"),
        ("other_model", r"answered as 'somebody-else'"),
        ("swaps", r"it continues another prompt than the one that was sent"),
    ],
)
def test_what_a_server_lacks_is_said_in_one_sentence(
    fault: str, says: str, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    assert fault in FAULTS
    with PretendVllm(base, fault=fault) as server:
        section = section_of(words, server.url, temperature=0.7)
        with pytest.raises(TraceError, match=says) as raised:
            train(words, base, tmp_path / "words", section)
    assert "\n" not in str(raised.value)
    assert server.adapters == {}, "an adapter was left with the server"


def test_the_client_walks_through_no_prompt(words: ModuleType, base: Path, tmp_path: Path) -> None:
    """The client looks at each item of what is not `extra_body`: nine tenths of a batch on an H200."""
    with PretendVllm(base) as server:
        sampler = ServerSampler(base, [server.url], tmp_path)
        body = sampler._body("base", list(range(4000)), 8, seed=1)
        asyncio.run(sampler.close())
    walked = {name: value for name, value in body.items() if name != "extra_body"}
    assert len(str(walked)) < 1000 and body["extra_body"]["prompt"] == list(range(4000))


@pytest.mark.ci
def test_temperature_and_earlier_turns_are_in_what_the_server_reports(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    class Episode(words.WordEpisode):  # type: ignore[misc, name-defined]
        async def step(self, message: Message) -> Step:
            first, ended = self.said == "", await super().step(message)
            return Step(messages=[Message(role="user", content="say one")]) if first else ended

    class Twice(words.WordTarget):  # type: ignore[misc, name-defined]
        def episode(self, task: Task, *, seed: int) -> Episode:
            return Episode(task.payload["word"], False)

    with PretendVllm(base) as server:
        section = section_of(words, server.url, temperature=0.7, iterations=1)
        _, points = words.train(base, tmp_path / "words", target=Twice(), section=section)
    assert len(server.asked) > 1.5 * (40 + 3 * 10), "few had a second turn"
    assert points[0].live_groups and points[0].sampler_difference < 1e-5


@pytest.mark.ci
def test_a_server_that_is_gone_stops_the_training_and_another_one_goes_on(
    served: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    server = PretendVllm(base).start()

    def stop(point: TrainingPoint) -> None:
        if point.iteration == 2:
            server.close()

    with pytest.raises(Unavailable, match=r"be given the adapter at http://.* \(ConnectError\): .* finished"):
        train(words, base, tmp_path / "words", section_of(words, server.url), stop)
    told: list[TrainingPoint] = []
    with PretendVllm(base) as another:
        section = section_of(words, another.url)
        adapter, points = train(words, base, tmp_path / "words", section, told.append)
    assert [point.iteration for point in told] == [3]
    assert adapter.adapter_id == served[0].adapter_id
    assert len(points) == 3


@pytest.mark.ci
def test_a_server_that_ends_in_the_middle_of_a_batch_costs_that_batch(
    words: ModuleType, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_assets.training.server_sampler._RETRIES", Retries(more=0))
    with PretendVllm(base, closes_at=(4, 5)) as server, pytest.raises(Unavailable) as raised:
        train(words, base, tmp_path / "words", section_of(words, server.url))
    assert re.match(
        r"\d+ of 40 episodes of words broke in training iteration 3 \(the model server at .* ",
        str(raised.value),
    )
    assert str(raised.value).endswith("mend what broke them and run again, finished iterations are kept.")


@pytest.mark.ci
def test_a_server_that_was_started_again_is_given_the_adapter_anew(
    served: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    with PretendVllm(base, forgets_at=(30, 75)) as server:
        adapter, _ = train(words, base, tmp_path / "words", section_of(words, server.url))
    assert len(server.loaded) > len(set(server.loaded))
    assert adapter.adapter_id == served[0].adapter_id


@pytest.mark.slow
def test_several_servers_share_the_work_and_one_of_them_may_end(
    served: Any, words: ModuleType, base: Path, tmp_path: Path
) -> None:
    with PretendVllm(base) as first:
        second = PretendVllm(base).start()

        def stop(point: TrainingPoint) -> None:
            if point.iteration == 2:
                second.close()

        section = section_of(words, f"{first.url}, {second.url}")
        adapter, _ = train(words, base, tmp_path / "words", section, stop)
    assert len(set(second.loaded)) >= 2
    assert min(len(first.asked), len(second.asked)) > 30
    assert adapter.adapter_id == served[0].adapter_id


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The pretended vLLM as a program of its own."""
    path = tmp_path / "vllm"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "pretend_vllm.py"} "$@"\n')
    path.chmod(0o755)
    return path


def servers_of(program: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(HERE / "pretend_vllm.py").encode() in line and str(program.parent).encode() in b" ".join(line):
            found.append(int(entry.parent.name))
    return found


@pytest.mark.slow
def test_a_killed_training_takes_its_server_along_and_goes_on(
    served: Any, words: ModuleType, base: Path, tmp_path: Path, program: Path
) -> None:
    section = section_of(words, "", sampler_command=str(program))
    code = "import sys; sys.path[:0] = sys.argv[1:3]; import word_target as w; from pathlib import Path; "
    code += "w.SECTION = type(w.SECTION).model_validate_json(sys.argv[5]); "
    code += "w.train_and_die(Path(sys.argv[3]), Path(sys.argv[4]), 3)"
    own = tmp_path / "base"
    own.symlink_to(base)  # so that this test knows its server
    folder = tmp_path / "words"
    arguments = [str(HERE), str(HERE.parent.parent), str(own), str(folder), section.model_dump_json()]
    died = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    until = time.monotonic() + 600
    while servers_of(program):
        assert time.monotonic() < until, "the server outlives its training"
        time.sleep(0.05)
    told: list[TrainingPoint] = []
    adapter, _ = train(words, own, folder, section, told.append)
    assert [point.iteration for point in told] == [3]
    assert adapter.adapter_id == served[0].adapter_id
    assert not servers_of(program)
    assert not (tmp_path / ".words.work").exists()


@pytest.mark.slow
def test_a_server_of_ones_own_that_ends_says_its_last_words(
    words: ModuleType, base: Path, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRETEND_DIES_AT", "60")
    section = section_of(words, "", sampler_command=str(program))
    with pytest.raises(Unavailable, match="the model server has ended: RuntimeError: out of memory"):
        train(words, base, tmp_path / "words", section)
    assert "out of memory" in (tmp_path / ".words.work" / "sampler" / "vllm.log").read_text()


@pytest.mark.ci
def test_a_server_of_ones_own_that_ends_between_batches_says_so_too(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora_config(words.SECTION))
    server = PretendVllm(base).start()
    sampler = ServerSampler(
        base, [server.url], tmp_path / "sampler", why_gone=lambda: "the model server has ended."
    )
    server.close()
    with pytest.raises(Unavailable, match="the model server has ended"):
        sampler.load_weights(model)


def test_without_vllm_the_sentence_names_the_settings(words: ModuleType, base: Path, tmp_path: Path) -> None:
    section = section_of(words, "", sampler_command=str(tmp_path / "vllm"))
    with pytest.raises(Unavailable, match=r"training\.sampler_command, or set training\.sampler_url"):
        train(words, base, tmp_path / "words", section)
    section = section_of(words, "", sampler="colocate", shard=True)
    with pytest.raises(InputError, match=r"training\.(sampler|shard)"):
        train(words, base, tmp_path / "words", section)
