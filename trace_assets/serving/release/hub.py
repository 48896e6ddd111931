"""A release on the Hugging Face hub: one repository an adapter, with its card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_assets.errors import InputError, Unavailable, require_extra
from trace_assets.serving.release.manifest import Release, checked, read_release
from trace_assets.store.files import replacing_folder
from trace_assets.training.checkpoints import CONFIG, WEIGHTS, adapter_id

CARD = "README.md"


@dataclass(frozen=True)
class Upload:
    """One repository as it will be.

    Attributes:
        repo: `owner/name`.
        folder: What it will hold, file for file.
        files: Their names and sizes in bytes.
    """

    repo: str
    folder: Path
    files: Sequence[tuple[str, int]]


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
    if not owner or not owner.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise InputError(f"'{owner}' cannot own a repository on the hub: name a user or an organisation.")
    index = read_release(release)
    marker = ".trace-hub"
    if to.exists() and any(to.iterdir()) and not (to / marker).is_file():
        raise InputError(f"{to} holds something else; name a new folder.")
    found = []
    with replacing_folder(to) as building:
        (building / marker).write_text(f"{owner}\n", encoding="utf-8")
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
            files = [(path.name, path.stat().st_size) for path in sorted(place.iterdir())]
            found.append(Upload(f"{owner}/{name}", to / name, files))
    return found


def front_matter(index: Release, base_model: str = "") -> str:
    """Return the lines that the hub reads of a model card.

    Args:
        index: The release.
        base_model: Name of the base model on the hub.
    """
    lines = ["library_name: peft", "pipeline_tag: text-generation", "tags: [lora, grpo, trace, agent]"]
    if base_model:
        lines.append(f"base_model: {json.dumps(base_model)}")  # YAML takes JSON's strings
    note = "" if base_model else f"\nBase model: `{index.base.name}`, `{index.base.base_id}`.\n"
    return "\n".join(["---", *lines, "---", note, ""])


def upload(uploads: Sequence[Upload], *, private: bool = True) -> list[str]:
    """Create the repositories and push the folders; what is there already is replaced by a new commit.

    The token is the hub client's own (`HF_TOKEN`, or `hf auth login`).

    Args:
        uploads: As `stage_uploads` returned them.
        private: Whether new repositories are private.

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
            api.create_repo(one.repo, private=private, exist_ok=True)
            made = api.upload_folder(
                repo_id=one.repo, folder_path=one.folder, commit_message="Release an adapter of TRACE"
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
