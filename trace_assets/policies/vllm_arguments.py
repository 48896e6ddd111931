"""What vLLM's engine in this process is started with: its arguments, and variables for its processes."""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError
from trace_assets.serving.launch import Launch
from trace_assets.variables import GROUP_OF_A_TRAINING

LOG_VARIABLE = "TRACE_VLLM_LOG"
"""Names the file for what the engine's processes print."""


def engine_variables(launch: Launch, folder: Path, log: Path) -> dict[str, str | None]:
    """Return the variables for the engine's processes; None takes one away.

    Args:
        launch: The base model and how it is served.
        folder: For the configuration of vLLM's log.
        log: Where they shall log and print.
    """
    return {
        **_own_gpu(),
        **launch.variables(),
        # A fork would copy the locks of our threads in whatever state they are.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_LOGGING_CONFIG_PATH": str(_logging(folder, log)),
        LOG_VARIABLE: str(log),
    }


def engine_arguments(launch: Launch, mixture: bool) -> Any:
    """Return vLLM's `AsyncEngineArgs` for what a server would be started with.

    Raises:
        InputError: vLLM does not take them.
    """
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    model, *words = launch.arguments()
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parsed, _ = parser.parse_known_args(["--model", model, *words])
    except SystemExit as error:
        why = said.getvalue().strip().rpartition("error: ")[2].rstrip(".")
        raise InputError(f"vLLM does not take its arguments: {why}; correct serving.extra.") from error
    arguments = AsyncEngineArgs.from_cli_args(parsed)
    arguments.skip_tokenizer_init, arguments.use_tqdm_on_load = True, False
    if current_platform.is_cpu() and arguments.enable_chunked_prefill is None:
        # As `serving.cpu.cpu_arguments` says.
        arguments.enable_chunked_prefill = False
    if arguments.enable_lora:  # one more than act at once: a new one is there before the old one goes
        arguments.max_cpu_loras = arguments.max_loras + 1
        if mixture:  # PEFT writes all experts of a layer as one matrix, other trainers one each
            arguments.enable_mixed_moe_lora_format = True
    return arguments


def _own_gpu() -> dict[str, str | None]:
    """Return what keeps the engine of one of several training processes on that process's GPU."""
    if "LOCAL_RANK" not in os.environ:
        return {}
    number, seen = int(os.environ["LOCAL_RANK"]), os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = [gpu for gpu in seen.split(",") if gpu]
    own = gpus[number] if number < len(gpus) else f"{number}"
    return {**dict.fromkeys(GROUP_OF_A_TRAINING), "CUDA_VISIBLE_DEVICES": own}


def _logging(folder: Path, log: Path) -> Path:
    """Write the configuration that sends vLLM's log, in all its processes, to a file."""
    handler = {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain", "delay": True}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(processName)s %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path = folder / "logging.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
