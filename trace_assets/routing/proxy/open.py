"""A proxy's decider and models, from a release or from a study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trace_assets.errors import InputError, require_extra
from trace_assets.release.index import Release, read_release
from trace_assets.release.manifest import checked
from trace_assets.routing.proxy.deciders import Decider, FittedDecider, ServedLabels
from trace_assets.routing.proxy.upstream import Upstream

RouterName = Literal["classifier", "label_logits"]


@dataclass(frozen=True)
class ServedRouting:
    """What a proxy is told.

    Attributes:
        router: Which router decides.
        options: Choice -> the line that describes it, `none` last.
        models: Choice -> name on the server; `none` is the base model.
        fitted: Folder of the classifier.
        base: Folder of the base model, which the classifier reads.
    """

    router: RouterName
    options: Mapping[str, str]
    models: Mapping[str, str]
    fitted: Path
    base: Path | None


def routing_of_release(folder: Path, router: RouterName | None = None) -> ServedRouting:
    """Read what a release says of routing; its digests are compared.

    Args:
        folder: The release.
        router: Which router; None takes the release's own.

    Raises:
        InputError: The folder is no release, or a file is not the one that was released.
    """
    release = read_release(folder)
    for name in ("router/router.json", "router/weights.npz"):
        checked(folder, name)
    return ServedRouting(
        router=router or release.router.router,
        options=release.router.options,
        models=release.models,
        fitted=folder / "router",
        base=_base(folder, release),
    )


def _base(folder: Path, release: Release) -> Path | None:
    named = os.environ.get("BASE_MODEL")
    if named:
        return Path(named)
    return folder / release.base.folder if release.base.folder else None


def open_decider(routing: ServedRouting, upstream: Upstream) -> Decider:
    """Open the router.

    Raises:
        InputError: The base model's folder is not known or is another model, or the router is not whole.
        Unavailable: The train extra is missing, which the classifier needs.
    """
    if routing.router == "label_logits":
        return ServedLabels(upstream, routing.models["none"], routing.options)
    require_extra("torch", "train", "the router 'classifier'")
    from trace_assets.routing.classifier import load_classifier

    if routing.base is None:
        raise InputError(
            "the classifier reads the base model, which is not in this release: set BASE_MODEL to "
            "its folder, or use --router label_logits."
        )
    return FittedDecider(load_classifier(routing.fitted, routing.base))
