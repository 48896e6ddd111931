"""Policies that a study opens, and the folders of their models: where they lie, and that they are theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from trace_assets.errors import InputError, require_extra
from trace_assets.policies.protocol import Policy
from trace_assets.records import Adapter, BaseCheckpoint
from trace_assets.settings import EvaluationSection, Rollouts
from trace_assets.store.content import folder_version, text_version
from trace_assets.store.manifest import Manifest, manifest_of
from trace_assets.study import Study
from trace_assets.training.base_folder import check_folder

ADAPTERS = {
    **{"adapter": "", "mixed_adapter": "mixed"},
    **{"joint_adapters": "joint_adapters", "consolidated": "consolidated"},
}
"""Asset to the partition of the table `adapters` that it writes; empty for its own."""
_compared: dict[Path, tuple[object, str]] = {}
"""Folder to the state of its files and the hash that they had: what nothing touched is read once."""


def whole_base(study: Study, base: BaseCheckpoint) -> Path:
    """Return the folder of a base model whose every byte is what was recorded; of a hub's model its name.

    Raises:
        InputError: It is gone, or is another one.
    """
    folder = base_place(study, base)
    if not folder.is_absolute() and not folder.is_dir():
        check_folder(str(folder))
        return folder  # a name on the hub, whose client compares what it loads
    if not folder.is_dir():
        raise InputError(f"the base model's folder {folder} is gone; {_base_back(base)}.")
    manifest = manifest_of(study.home.path)
    listed = listed_in(manifest, folder)
    names = [str(manifest.path(name).relative_to(folder)) for name in listed] or _names(folder)
    if folder.is_relative_to(study.home.path):
        from trace_assets.training.demo_agent.pretraining import RECIPE_FILE

        names = [name for name in names if name != RECIPE_FILE]
    found = _content(folder, lambda: folder_version(folder, names))
    if found != base.base_id:
        said = [f"{manifest.path(name)} {words}" for name, words in manifest.problems(listed).items()]
        raise InputError(
            f"the base model in {folder} is not the one that was recorded "
            f"({'; '.join(said) or f'{found} instead of {base.base_id}'}); {_base_back(base)}."
        )
    return folder


def base_place(study: Study, base: BaseCheckpoint) -> Path:
    """Return where a base model lies, in the home or anywhere else, or its name on the hub."""
    path = Path(base.path)
    inside = study.home.path / path
    return path if path.is_absolute() or not (inside.is_dir() or base.path.startswith("models/")) else inside


def whole_adapter(study: Study, adapter: Adapter) -> Path:
    """Return the folder of an adapter whose configuration and weights are what was recorded.

    Raises:
        InputError: It is gone, or is another one.
    """
    folder = study.home.path / adapter.path
    from trace_assets.training.checkpoints import adapter_id

    found = _content(folder, lambda: adapter_id(folder)) if folder.is_dir() else "gone"
    if found != adapter.adapter_id:
        what = "is gone" if found == "gone" else f"was altered: it is {found} instead of {adapter.adapter_id}"
        raise InputError(
            f"the adapter '{adapter.name}' in {folder} {what}; run `trace sync`, which makes it again."
        )
    return folder


def whole_router(study: Study) -> Path:
    """Return the folder of the fitted router.

    Raises:
        InputError: A file of it is not what was written.
    """
    folder, manifest = study.home.models / "router", manifest_of(study.home.path)
    said = manifest.problems(listed_in(manifest, folder))
    for name, words in sorted(said.items()):
        raise InputError(f"the router's file {study.home.path / name} {words}; {ROUTER_BACK}.")
    return folder


ROUTER_BACK = "run `trace sync`, which fits it again"


def enter(study: Study, folder: Path) -> None:
    """Enter the files of a model that was just made, and strike out those that it no longer has."""
    manifest, there = manifest_of(study.home.path), files_in(folder) if folder.is_dir() else []
    gone = set(listed_in(manifest, folder)) - {manifest.name(file) for file in there}
    manifest.forget(sorted(gone))
    manifest.note_files(there)


def folders_of(study: Study, asset: str, partition: str) -> list[Path]:
    """Return the folders outside the tables that an item's rows name, whether they are there or not."""
    try:
        if asset == "base_model":
            places = [base_place(study, row) for row in study.store.read(BaseCheckpoint)]
            return [place for place in places if place.is_absolute()]
        if asset in ADAPTERS:
            rows = study.store.read(Adapter, ADAPTERS[asset] or partition)
            return [study.home.path / row.path for row in rows]
    except InputError:
        return []  # the table's own loss is told elsewhere
    return [study.home.models / "router"] if asset == "routing" else []


def files_in(folder: Path) -> list[Path]:
    """Return the files of a model's folder, hidden ones left out."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return sorted(
        file for file in found if not any(part[0] == "." for part in file.relative_to(folder).parts)
    )


def listed_in(manifest: Manifest, folder: Path) -> list[str]:
    """Return the names of a folder's files by a manifest."""
    start = manifest.name(folder) + "/"
    return [name for name in manifest.entries() if name.startswith(start)]


def _names(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in files_in(folder)]


def _content(folder: Path, read: Callable[[], str]) -> str:
    """Return what reading a folder's content gives; one that nothing has touched is read once."""
    state = text_version(*(f"{file} {_state(file)}" for file in files_in(folder)))
    known = _compared.get(folder)
    if known is not None and known[0] == state:
        return known[1]
    try:
        found = read()
    except (OSError, InputError):
        return "incomplete"
    _compared[folder] = (state, found)
    return found


def _state(file: Path) -> tuple[int, ...]:
    found = file.stat()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _base_back(base: BaseCheckpoint) -> str:
    if Path(base.path).is_absolute():
        return "put it back, or take the folder as it is now by `trace sync --again base_model`"
    return "run `trace sync`, which makes it again"


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


def open_policy(study: Study) -> Policy:
    """Open the policy that `rollouts.engine` names.

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
            study, section, None, max_new_tokens=section.max_new_tokens, concurrency=section.concurrency
        )
    require_extra("torch", "train", "the engine 'transformers'")
    from trace_assets.policies.transformers_engine import TransformersPolicy

    return TransformersPolicy(
        base_folder(study),
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
