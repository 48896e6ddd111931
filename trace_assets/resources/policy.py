"""The base model and the policy that the settings ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trace_assets.errors import InputError, require_extra
from trace_assets.policies.protocol import Policy
from trace_assets.records import BaseCheckpoint
from trace_assets.resources.model_files import whole_base
from trace_assets.settings import EvaluationSection, Rollouts
from trace_assets.store.content import text_version
from trace_assets.study import Study


def trained_folder(study: Study) -> Path:
    """Return where a base model that is trained by these settings, on this target, lies or would lie."""
    key = text_version(study.settings.base_model.fingerprint(), study.target.version)
    return study.home.models / "base" / key


def base_checkpoint(study: Study) -> BaseCheckpoint:
    """Return the base model that was made.

    Raises:
        InputError: There is none yet.
    """
    rows = study.store.read(BaseCheckpoint)
    if not rows:
        raise InputError(
            "there is no base model yet: name the folder of yours in base_model.path (`trace init` writes "
            "it down), or leave it empty for the tiny agent; then run `trace sync --select base_model`."
        )
    return rows[0]


def base_folder(study: Study) -> Path:
    """Return the folder of the base model, or its name on the hub.

    Raises:
        InputError: There is no base model yet, or the folder's content is not what was recorded.
    """
    return whole_base(study, base_checkpoint(study))


def policy_home(study: Study) -> str:
    """Return what identifies the base policy: a model's content hash, or a server and model name."""
    section = study.settings.rollouts
    if section.engine == "openai":
        return text_version(section.base_url, section.model)
    return base_checkpoint(study).base_id


def open_policy(study: Study, adapters: Mapping[str, Path] | None = None) -> Policy:
    """Open the policy that `rollouts.engine` names.

    Args:
        study: The study.
        adapters: Adapter name to PEFT folder, for conversations that ask for one.

    Raises:
        InputError: The settings are incomplete.
        Unavailable: A package is missing.
    """
    section = study.settings.rollouts
    if section.engine == "openai":
        from trace_assets.policies.openai_server import OpenAIPolicy

        if not section.base_url or not section.model:
            raise InputError(
                "rollouts.engine is 'openai', which needs rollouts.base_url and rollouts.model in trace.toml."
            )
        return OpenAIPolicy(
            section.base_url,
            section.model,
            temperature=section.temperature,
            max_new_tokens=section.max_new_tokens,
            retries=section.retries,
            timeout_seconds=section.timeout_seconds,
            check_model=section.check_model,
        )
    if section.engine == "vllm":
        return open_vllm(
            study, section, adapters, max_new_tokens=section.max_new_tokens, concurrency=section.concurrency
        )
    require_extra("torch", "train", "the engine 'transformers'")
    from trace_assets.policies.transformers_engine import TransformersPolicy

    return TransformersPolicy(
        base_folder(study),
        adapters=dict(adapters or {}),
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
        dtype=section.dtype,
    )


def open_evaluation_vllm(study: Study, adapters: Mapping[str, Path]) -> Policy:
    """Open vLLM's engine as the evaluation has it, see `open_vllm`.

    Args:
        study: The study; `evaluation` says how it samples.
        adapters: Adapter name to PEFT folder.
    """
    section = study.settings.evaluation
    return open_vllm(
        study,
        section,
        adapters,
        max_new_tokens=section.max_new_tokens,
        concurrency=section.concurrency,
        seed=section.seed,
    )


def open_vllm(
    study: Study,
    section: Rollouts | EvaluationSection,
    adapters: Mapping[str, Path] | None,
    *,
    max_new_tokens: int,
    concurrency: int,
    seed: int = 0,
) -> Policy:
    """Open vLLM's engine in this process on the base model.

    Args:
        study: The study; `serving` says where and how fast the engine computes.
        section: Temperature, numbers and longest conversation.
        adapters: Adapter name to PEFT folder.
        max_new_tokens: Longest reply.
        concurrency: Conversations at once.
        seed: Mixed into every conversation's seed.

    Raises:
        InputError: A folder or an argument is not usable.
        Unavailable: vLLM is not installed in this interpreter, or its engine does not start.
    """
    from trace_assets.policies.vllm_engine import VllmPolicy

    serving = study.settings.serving
    return VllmPolicy(
        base_folder(study),
        adapters=adapters,
        temperature=section.temperature,
        max_new_tokens=max_new_tokens,
        max_context=section.max_context or None,
        seed=seed,
        base_id=base_checkpoint(study).base_id,
        dtype=section.dtype,
        max_num_seqs=concurrency,
        kv_cache_gib=serving.kv_cache_gib,
        extra=serving.extra,
    )
