"""`adapters.json` of a release: what is in it, what it is called, and what was found about it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER
from trace_assets.release.manifest import checked
from trace_assets.serving.launch import BASE

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


class Release(Part):
    """The whole index."""

    format: Literal[1] = 1
    base: ReleasedBase
    router: ReleasedRouter
    adapters: tuple[ReleasedAdapter, ...]

    @property
    def models(self) -> dict[str, str]:
        """Choice of a router -> name of the model on the server."""
        return {**{one.name: one.served_as for one in self.adapters}, NO_ADAPTER: self.base.name}

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
