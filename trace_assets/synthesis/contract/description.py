"""What a person says of a target that is not live: its tools and its policy, kept in the home."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.records import Record
from trace_assets.store.durable import make_folder
from trace_assets.store.home import replacing_file
from trace_assets.store.manifest import manifest_of
from trace_assets.synthesis.contract.tool_list import GivenTools


class TargetDescription(Record):
    """Tools and policy of one target."""

    target: str
    tools: GivenTools = GivenTools()
    policy: str = ""
    tools_from: str = ""
    """Name of the file that the tools came from."""
    policy_from: str = ""


def description_file(folder: Path, target: str) -> Path:
    """Return where a target's description lies; names that differ in a sign only do not meet."""
    mark = hashlib.sha256(target.encode()).hexdigest()[:8]
    return folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', target).strip('-')[:60]}-{mark}.json"


def read_description(folder: Path, target: str) -> TargetDescription:
    """Return what is known of a target, an empty description when nothing is.

    Raises:
        InputError: The file was damaged.
    """
    file, manifest = description_file(folder, target), manifest_of(folder.parent)
    if said := manifest.problem(manifest.name(file)):
        raise _unreadable(target, file, said)
    try:
        return TargetDescription.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return TargetDescription(target=target)
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise _unreadable(target, file, f"cannot be read ({type(error).__name__})") from error


def _unreadable(target: str, file: Path, said: str) -> InputError:
    return InputError(
        f"what is known of target '{target}': {file} {said}; go on without it by `trace doctor "
        "--accept-losses`, and give its tools and policy again by `trace contract`, or its files by `trace "
        "ingest`."
    )


def write_description(folder: Path, description: TargetDescription) -> bool:
    """Keep a description; tell whether it is news."""
    file, text = description_file(folder, description.target), description.model_dump_json(indent=1)
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") == text:
        return False
    make_folder(folder)
    manifest = manifest_of(folder.parent)
    with replacing_file(file, lambda partial: manifest.placing(manifest.name(file), partial)) as partial:
        partial.write_text(text, encoding="utf-8")
    return True
