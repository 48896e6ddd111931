"""vLLM inside this process as a policy: all waiting conversations are one continuous batch, without HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_assets.errors import InputError, Unavailable, install_command
from trace_assets.policies.token_policy import Sampled, TokenPolicy
from trace_assets.store.content import folder_version
from trace_assets.system.processes import GROUP_OF_A_TRAINING
from trace_assets.system.vllm import Launch

if TYPE_CHECKING:
    from trace_assets.policies.vllm_host import VllmHost


class VllmPolicy(TokenPolicy):
    """Plays with vLLM's engine, which is started here and ends with this process at the latest.

    An adapter is known to the engine by the hash of its content: neither its weights nor its prefix cache can
    be those of an earlier one. The same seed behind the same ids writes the same reply, up to the last bits
    of the logits, which vary with the batch.

    Unlike the transformers engine it may be used from several event loops, one after the other.

    Args:
        model_dir: Model folder (or hub name).
        adapters: PEFT folders by the name that `Conversation.adapter` asks for.
        temperature: 0 takes the likeliest token.
        max_new_tokens: Longest reply.
        max_context: Longest conversation in tokens; None takes the model's own limit, for which vLLM wants
            room in its cache.
        seed: Mixed into every conversation's seed.
        name: How the policy is called in trajectories; None takes the folder's name.
        base_id: What identifies the base model's weights; None hashes the folder's files when it is asked
            for.
        dtype: `float32`, `bfloat16`; `auto` takes the model's own.
        max_num_seqs: Conversations that are worked on at once.
        kv_cache_gib: Key/value cache of a CPU build.
        lora_rank: Highest rank that `load_weights` will be given; 0 when it is not used.
        extra: Further arguments as `vllm serve` takes them; what only a server knows is passed over.

    Raises:
        InputError: The folder, an adapter or an argument is not usable.
        Unavailable: vLLM is not installed in this interpreter, or its engine does not start.
    """

    def __init__(
        self,
        model_dir: Path | str,
        *,
        adapters: Mapping[str, Path] | None = None,
        temperature: float = 1.0,
        max_new_tokens: int = 64,
        max_context: int | None = None,
        seed: int = 0,
        name: str | None = None,
        base_id: str | None = None,
        dtype: str = "auto",
        max_num_seqs: int = 128,
        kv_cache_gib: int = 1,
        lora_rank: int = 0,
        extra: Sequence[str] = (),
    ) -> None:
        require_vllm()
        from trace_assets.policies.vllm_host import VllmHost
        from trace_assets.training.checkpoints import adapter_id

        super().__init__(
            model_dir,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            max_context=max_context,
            seed=seed,
            name=name,
        )
        self._model_dir, self._base_id = Path(model_dir), base_id
        folders = {adapter: Path(folder).resolve() for adapter, folder in (adapters or {}).items()}
        contents = {adapter: adapter_id(folder) for adapter, folder in folders.items()}
        launch = Launch(
            str(model_dir),
            self._name,
            adapters=folders,
            dtype=dtype,
            max_model_len=self.max_context if max_context else 0,
            max_num_seqs=max_num_seqs,
            tool_parser="",
            kv_cache_gib=kv_cache_gib,
            lora_rank=lora_rank,
            logprobs_mode="processed_logprobs",
            extra=extra,
        )
        self._lora_rank = lora_rank
        self._loras: dict[str | None, Any] = {}
        self._last_lora = 0
        self._extra = list(extra)
        self._host: VllmHost = VllmHost(launch, mixture=self.is_mixture)
        # `extra` may hold a shorter one: what goes beyond it is an overflow, not a request to refuse.
        self.max_context = min(self.max_context, self._host.max_context)
        try:
            for adapter, folder in folders.items():
                self._loras[adapter] = self._load(contents[adapter], folder)
        except BaseException:
            self._host.close()
            raise

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names that a conversation may ask for."""
        return tuple(adapter for adapter in self._loras if adapter is not None)

    def load_weights(self, model: Any, adapter: str | None = None) -> None:
        """Act with the LoRA of a model in training from now on; the model is only read.

        The LoRA is handed over as an adapter, not merged: the sampler's forward pass has the trainer's own
        products, and no rounding of a sum.

        Args:
            model: A PEFT model on this policy's base model.
            adapter: The name it acts under; None replaces what acts when no adapter is asked for.

        Raises:
            InputError: Conversations with the earlier weights are still open, or the policy was opened
                without `lora_rank`.
            Unavailable: The engine is dead.
        """
        from trace_assets.training.checkpoints import write_adapter

        if not self._lora_rank:
            raise InputError(f"'{self._name}' was opened without lora_rank: it takes no weights in training.")
        if self.is_open(adapter):
            raise InputError(
                f"cannot change the weights of adapter {adapter} of '{self._name}' in the middle of its "
                "conversations; end them first."
            )
        folder = self._host.folder / f"adapter-{self._last_lora + 1}"
        content = write_adapter(model, folder, self._name)
        before = self._loras.get(adapter)
        if before is not None and before.lora_name == content:
            shutil.rmtree(folder, ignore_errors=True)
            return
        self._loras[adapter] = self._load(content, folder)
        if before is not None and before.lora_name not in [one.lora_name for one in self._loras.values()]:
            self._host.wait(self._host.remove(before))
            if Path(before.lora_path).parent == self._host.folder:
                shutil.rmtree(before.lora_path, ignore_errors=True)

    async def close(self) -> None:
        """End the engine and its processes."""
        await super().close()
        await asyncio.to_thread(self._host.close)

    async def _sample(
        self, ids: Sequence[int], *, seed: int, adapter: str | None, max_tokens: int
    ) -> Sampled:
        if adapter is not None and adapter not in self._loras:
            raise InputError(
                f"policy '{self._name}' has no adapter '{adapter}' (it has: "
                f"{', '.join(self.adapters) or 'none'}); give its folder in `adapters`."
            )
        written, logprobs = await self._host.ask(
            self._host.sample(
                ids,
                self._loras.get(adapter),
                temperature=self.temperature,
                seed=seed,
                max_tokens=max_tokens,
                stop_token_ids=sorted(self.ends),
            )
        )
        return Sampled(written, logprobs)

    def _identity(self) -> Any:
        if self._base_id is None:
            local = self._model_dir.is_dir()
            self._base_id = folder_version(self._model_dir) if local else str(self._model_dir)
        loras = sorted((adapter or "", lora.lora_name) for adapter, lora in self._loras.items())
        # Among `extra` may be what changes the weights, such as a quantization.
        return [self._base_id, self._host.dtype, loras, self._extra]

    def _load(self, content: str, folder: Path) -> Any:
        """Return an adapter that the engine has loaded; one of the same content is taken again."""
        from vllm.lora.request import LoRARequest

        from trace_assets.training.checkpoints import adapts_experts

        for known in self._loras.values():
            if known.lora_name == content:
                return known
        self._last_lora += 1
        lora = LoRARequest(
            lora_name=content,
            lora_int_id=self._last_lora,
            lora_path=str(folder),
            **({"is_3d_lora_weight": True} if adapts_experts(folder) else {}),
        )
        self._host.wait(self._host.add(lora))
        return lora


def require_vllm() -> None:
    """Fail with the way to get it where vLLM is not installed in this interpreter.

    Raises:
        Unavailable: It is not.
    """
    from importlib.util import find_spec

    if find_spec("vllm") is None:
        raise Unavailable(
            "the engine 'vllm' needs vLLM in this interpreter, which has none: run `"
            f"{install_command('train,serve')}` on a GPU machine, or `make .venv-serve/.vllm` for a CPU "
            "and then its programs (.venv-serve/bin/trace); docs/serving.md says more."
        )


# What vLLM's engine in this process is started with: its arguments, and variables for its processes.


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
        # As `system.vllm.cpu_arguments` says.
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
