"""What goes to the Hugging Face hub, each with its card: adapters, trajectories, environments."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from trace_assets.errors import InputError, Unavailable, require_extra
from trace_assets.serving.release.manifest import Release, checked, read_release
from trace_assets.store.files import replacing_folder
from trace_assets.training.checkpoints import CONFIG, WEIGHTS, adapter_id

CARD = "README.md"
_MARKER = ".trace-hub"


@dataclass(frozen=True)
class Upload:
    """One repository as it will be.

    Attributes:
        repo: `owner/name`.
        folder: What it will hold, file for file.
        files: Their names and sizes in bytes.
        kind: What the hub calls such a repository.
    """

    repo: str
    folder: Path
    files: Sequence[tuple[str, int]]
    kind: Literal["model", "dataset"] = "model"


def stage_uploads(release: Path, owner: str, to: Path, *, base_model: str = "") -> list[Upload]:
    """Write the folders that go to the hub, one an adapter, from a release. Nothing leaves this machine.

    Args:
        release: A release's folder; every adapter in it is held against the index.
        owner: Who the repositories belong to, a user or an organisation.
        to: Where the folders are written: a new or empty folder, or one that an earlier call wrote.
        base_model: Name of the base model on the hub, for the card; empty takes the release's own.

    Raises:
        InputError: The folder is no release, or was altered; or the owner's name cannot be one.
    """
    index = read_release(release)
    found = []
    with _building(owner, to) as building:
        for one in index.adapters:
            source, name = release / one.folder, one.served_as.replace("@", "-")
            if not (source / WEIGHTS).is_file() or adapter_id(source) != one.adapter_id:
                raise InputError(f"{source} is not the adapter that was released; release again.")
            place = building / name
            place.mkdir()
            for file in (CONFIG, WEIGHTS):
                shutil.copyfile(source / file, place / file)
            text = checked(release, one.card).decode("utf-8")
            (place / CARD).write_text(front_matter(index, base_model) + text, encoding="utf-8")
            found.append(Upload(f"{owner}/{name}", to / name, _files(place)))
    return found


def stage_dataset(file: Path, owner: str, to: Path) -> Upload:
    """Write the folder of a data set of trajectories: the file and a card. Nothing leaves this machine.

    Args:
        file: Trajectories as `write_huggingface` writes them; the repository is named after it.
        owner: As for `stage_uploads`.
        to: As for `stage_uploads`.

    Raises:
        InputError: As `stage_uploads`.
    """
    counts = (
        pl.read_parquet(file, glob=False, columns=["target", "model", "success"])
        .group_by("target", "model")
        .agg(
            pl.len().alias("trajectories"),
            pl.col("success").sum().alias("passed"),
            (~pl.col("success")).sum().alias("failed"),
        )
        .sort("target", "model")
    )
    table = [
        "| target | policy | trajectories | passed | failed | not judged |",
        "|---|---|--:|--:|--:|--:|",
        *(
            f"| {_cell(target)} | {_cell(model)} | {n} | {passed} | {failed} | {n - passed - failed} |"
            for target, model, n, passed, failed in counts.iter_rows()
        ),
    ]
    text = "\n".join(
        [
            *(f"# {file.stem}", "", "Trajectories of an agent that calls tools, a row each. `messages` are"),
            "OpenAI's chat messages; `tools`, `checks` and `metadata` are JSON text; `success` is null where",
            *("nobody judged. `trace ingest` reads the file again.", "", *table, ""),
        ]
    )
    size = next(words for most, words in _SIZES if counts["trajectories"].sum() < most)
    head = ["configs:", "- config_name: default", "  data_files: trajectories.parquet"]
    tags = [f"size_categories: [{size}]", "tags: [trajectories, tool-use, trace, agent]"]
    name = _repository(file.stem)
    with _building(owner, to) as building:
        place = building / name
        place.mkdir()
        shutil.copyfile(file, place / "trajectories.parquet")
        (place / CARD).write_text(_headed([*head, *tags], text), encoding="utf-8")
        return Upload(f"{owner}/{name}", to / name, _files(place), "dataset")


def stage_environment(folder: Path, owner: str, to: Path) -> Upload:
    """Write the folder of an exported environment, with the hub's lines on its card.

    Args:
        folder: What `trace environment export` wrote; the repository is named after it.
        owner: As for `stage_uploads`.
        to: As for `stage_uploads`.

    Raises:
        InputError: As `stage_uploads`, or the folder has no README.md.
    """
    if not (folder / CARD).is_file():
        raise InputError(f"{folder} is no export of an environment: it has no {CARD}.")
    name = _repository(folder.resolve().name)
    lines = ["tags: [environment, reinforcement-learning, trace, agent]", "viewer: false"]
    with _building(owner, to) as building:
        place = building / name
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        text = (folder / CARD).read_text(encoding="utf-8")
        if not text.startswith("---\n"):  # an export that the hub knows brings lines of its own
            (place / CARD).write_text(_headed(lines, text), encoding="utf-8")
        return Upload(f"{owner}/{name}", to / name, _files(place), "dataset")


_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1 << 63, "n>100K"))
"""What the hub calls data sets of less than so many rows."""


@contextmanager
def _building(owner: str, to: Path) -> Iterator[Path]:
    """Give a folder that stands in the place of `to` when the body is done.

    Raises:
        InputError: The owner's name cannot be one, or `to` holds something else.
    """
    if not owner or not owner.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise InputError(f"'{owner}' cannot own a repository on the hub: name a user or an organisation.")
    if to.exists() and any(to.iterdir()) and not (to / _MARKER).is_file():
        raise InputError(f"{to} holds something else; name a new folder.")
    with replacing_folder(to) as building:
        (building / _MARKER).write_text(f"{owner}\n", encoding="utf-8")
        yield building


def _files(place: Path) -> list[tuple[str, int]]:
    there = sorted(path for path in place.rglob("*") if path.is_file())
    return [(path.relative_to(place).as_posix(), path.stat().st_size) for path in there]


def _repository(name: str) -> str:
    """Return a name that the hub takes.

    >>> _repository("runs of May, 1st")
    'runs-of-May-1st'
    """
    words = re.findall(r"[A-Za-z0-9_.]+", name)
    return "-".join(words).strip(".-")[:96] or "trace"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def _headed(lines: Sequence[str], text: str) -> str:
    return "\n".join(["---", *lines, "---", "", text])


def front_matter(index: Release, base_model: str = "") -> str:
    """Return the lines that the hub reads of a model card."""
    lines = ["library_name: peft", "pipeline_tag: text-generation", "tags: [lora, grpo, trace, agent]"]
    if base_model:
        lines.append(f"base_model: {json.dumps(base_model)}")  # YAML takes JSON's strings
    note = "" if base_model else f"\nBase model: `{index.base.name}`, `{index.base.base_id}`.\n"
    return "\n".join(["---", *lines, "---", note, ""])


def upload(uploads: Sequence[Upload], *, private: bool = True) -> list[str]:
    """Create the repositories and push the folders; what is there already is replaced by a new commit.

    The token is the hub client's own (`HF_TOKEN`, or `hf auth login`).

    Returns:
        The address of each commit.

    Raises:
        Unavailable: The hub's client is not installed, or the hub refuses or does not answer.
    """
    require_extra("huggingface_hub", "train", "the upload to the hub")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    api, done = HfApi(), list[str]()
    for one in uploads:
        try:
            api.create_repo(one.repo, repo_type=one.kind, private=private, exist_ok=True)
            made = api.upload_folder(
                repo_id=one.repo,
                repo_type=one.kind,
                folder_path=one.folder,
                commit_message="Written by TRACE assets",
            )
        except (HfHubHTTPError, OfflineModeIsEnabled, OSError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            kept = f"; pushed before that: {', '.join(done)}" if done else ""
            raise Unavailable(
                f"{one.repo} could not be pushed ({first}){kept}; log in with `hf auth login`, and run it "
                "again: what is there is not pushed twice."
            ) from error
        done.append(str(made.commit_url))
    return done
