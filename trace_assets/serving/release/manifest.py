"""`manifest.json`: the SHA-256 of every file of a release, and the mark that a folder is one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_assets.errors import InputError
from trace_assets.routing.router import JOINT, UNNEEDED_COST, models_for
from trace_assets.store.files import make_folder
from trace_assets.system.vllm import BASE

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
"""What `serve.sh` compares before anything is served."""
MADE_BY = "trace release"


def write_manifest(folder: Path) -> None:
    """Write the digests of all files that lie in a folder, also as `sha256sum --check` reads them."""
    files = {name: _digest(folder / name) for name in _files(folder) if name not in (MANIFEST, SUMS)}
    sums = "".join(f"{digest}  {name}\n" for name, digest in files.items())
    (folder / SUMS).write_text(sums, encoding="utf-8")
    files[SUMS] = _digest(folder / SUMS)
    text = json.dumps({"made_by": MADE_BY, "format": 1, "files": files}, indent=1, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, str]:
    """Return file -> SHA-256.

    Raises:
        InputError: The folder is no release.
    """
    try:
        found: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if found["made_by"] != MADE_BY:
            raise ValueError(f"made by {found['made_by']}")
        return {str(name): str(digest) for name, digest in found["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder} is no release: it has no {MANIFEST} that can be read; make one with `trace release`."
        ) from error


def checked(folder: Path, name: str) -> bytes:
    """Return the content of one file of a release.

    Raises:
        InputError: It is missing, or not the one that was released.
    """
    wanted = read_manifest(folder).get(name)
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / name} cannot be read ({error.strerror}); release again.") from error
    if hashlib.sha256(content).hexdigest() != wanted:
        raise InputError(f"{folder / name} is not the file that was released; release again.")
    return content


def may_be_replaced(folder: Path) -> None:
    """Make sure that nothing but an earlier release lies where one shall be written.

    Raises:
        InputError: The path is a file or link, the folder holds something else, or none can be made there.
    """
    try:
        make_folder(folder.parent)
        (folder / MANIFEST).is_file()  # the file system's own limits, of a name's length for one
    except OSError as error:
        raise InputError(
            f"{folder} cannot be made ({error.strerror}: {error.filename}); name a place where one can be."
        ) from error
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder} is no folder; name one that is empty, or not there yet.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        released = {*read_manifest(folder), MANIFEST}
    except InputError:
        released = set()
    strange = [name for name in _files(folder) if name not in released]
    if strange:
        raise InputError(
            f"{folder} holds something else than a release ('{strange[0]}'); name an empty folder, or one "
            "that holds an earlier release and nothing more."
        )


def _files(folder: Path) -> list[str]:
    found = (file for file in folder.rglob("*") if file.is_symlink() or not file.is_dir())
    return sorted(file.relative_to(folder).as_posix() for file in found)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# `adapters.json` of a release: what is in it, what it is called, and what was found about it.


INDEX = "adapters.json"


class Part(BaseModel):
    """Base of the index's parts: what is not known here is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Rate(Part):
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    """Episodes behind it."""


class NoHarmVerdict(Part):
    """What the adapter does to tasks of other skills."""

    verdict: Literal["harmless", "unclear", "harmful"]
    reason: str


class ReleasedAdapter(Part):
    """One adapter."""

    name: str
    """What a router chooses."""
    served_as: str
    """What a request to the server names; holds the hash of the weights."""
    adapter_id: str
    base_id: str
    capability: str
    """In words."""
    folder: str
    """PEFT folder, relative to the release."""
    card: str
    environment_id: str | None
    validation_before: Rate
    """On the held-out seeds of its own environment, without the adapter."""
    validation_after: Rate
    rejected: str
    """Why its environment was rejected and trained on all the same; empty when it was accepted."""
    no_harm: NoHarmVerdict | None
    """None where it was not played on the target's validation tasks."""
    isolation_level: str
    """What held the environment while it was trained in; empty where nothing was executed."""
    sandbox_version: str
    recomputed: int
    """Of the episodes behind it, how many gave the same verdict when played again in fresh sandboxes."""
    recomputed_of: int


class ReleasedTogether(Part):
    """What acts in the place of one capability's adapter: a sum of several, or one adapter for all."""

    name: str
    """`cancel+window` for a sum of two, or the arm, such as `joint`."""
    served_as: str
    adapter_id: str
    folder: str


class ReleasedChoice(Part):
    """Which way to put the adapters together is released."""

    arm: str = "routed"
    """`base`, `routed`, `composed`, `sum`, `joint`, `sequential` or `consolidated`."""
    reason: str = ""
    """What validation showed, in words; empty where it was not asked."""
    summed_only: tuple[str, ...] = ()
    """Adapters that act in sums and never alone: in their place the base model answers."""
    set_cost: float | None = None
    """What decides which adapters act together; None takes what the router was fitted with."""
    scale: float = 1.0
    """What the weight changes of the sums were multiplied by."""


class ReleasedBase(Part):
    """The base model that the adapters belong to."""

    name: str = BASE
    base_id: str
    folder: str
    """Relative to the release; empty where the model is not in it and `BASE_MODEL` has to name it."""
    model: str
    """What it was called where it was adapted: the last part of its path, or a hub name."""


class ReleasedRouter(Part):
    """How conversations are told apart."""

    router: Literal["classifier", "label_logits"]
    """The one to use unless another is asked for."""
    version: str
    """Of the classifier."""
    options: dict[str, str]
    """Choice -> the line that the label-logit router shows, in label order."""
    unneeded_cost: float = Field(UNNEEDED_COST, gt=0, le=1)
    """What an adapter costs that was not needed, as the router was fitted."""


class Release(Part):
    """The whole index."""

    format: Literal[1] = 1
    base: ReleasedBase
    router: ReleasedRouter
    adapters: tuple[ReleasedAdapter, ...]
    together: tuple[ReleasedTogether, ...] = ()
    choice: ReleasedChoice = ReleasedChoice()

    @property
    def models(self) -> dict[str, str]:
        """Choice of a router -> name of the model on the server."""
        together = {one.name: one.served_as for one in self.together}
        return models_for(
            self.choice.arm,
            {one.name: one.served_as for one in self.adapters},
            {name: served for name, served in together.items() if JOINT in name},
            {name: served for name, served in together.items() if JOINT not in name},
            self.base.name,
            summed_only=self.choice.summed_only,
        )

    def text(self) -> str:
        """Return the file's text."""
        return self.model_dump_json(indent=1) + "\n"


def read_release(folder: Path) -> Release:
    """Read the index of a release, after its digest.

    Raises:
        InputError: The folder is no release, or the index is not the one that was written.
    """
    text = checked(folder, INDEX)
    try:
        return Release.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{folder / INDEX} cannot be read ({where}: {first['msg']}); release again with this version."
        ) from error
