"""How models are served over HTTP."""

from __future__ import annotations

from pydantic import Field

from trace_assets.settings.section import Section


class Serving(Section):
    """How `trace serve` starts vLLM. It decides nothing that is stored: no asset hangs on it.

    Where vLLM plays inside the process (`rollouts.engine`, `evaluation.engine`), `kv_cache_gib` and `extra`
    hold for it as well: where and how fast it computes.
    """

    command: str = ""
    """vLLM's program; empty looks beside this interpreter, then on the PATH."""
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65535)
    dtype: str = "auto"
    """`float32` for the tiny model on a CPU; `auto` takes the model's own."""
    max_model_len: int = Field(0, ge=0)
    """Longest conversation in tokens; 0: what the model allows."""
    max_num_seqs: int = Field(64, ge=1)
    tool_parser: str = "hermes"
    """As `vllm serve --tool-call-parser` names them; empty leaves calls in the text."""
    kv_cache_gib: int = Field(1, ge=1)
    """Key/value cache of a CPU build."""
    extra: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, such as `--tensor-parallel-size=2`."""
    start_seconds: float = Field(900.0, gt=0)
    parity_tasks: int = Field(16, ge=1)
    """Validation tasks played per adapter to compare the server with the trained model."""
    tolerance: float = Field(0.0, ge=0)
    """Largest difference of a log-probability, in nats; 0: 0.001 for float32, 0.25 for shorter floats."""
