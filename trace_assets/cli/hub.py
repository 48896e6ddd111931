"""What commands that write for the Hugging Face hub have in common: options, the push, its lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from trace_assets.cli.options import console
from trace_assets.errors import InputError

if TYPE_CHECKING:
    from trace_assets.serving.release.hub import Upload

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="With --hub: write what would be pushed, list it, and push nothing."),
]
Public = Annotated[bool, typer.Option("--public", help="With --hub: new repositories are public.")]


def refuse_without_owner(owner: str, *, dry_run: bool, public: bool) -> None:
    """Refuse options that mean nothing without an owner.

    Raises:
        InputError: One is given.
    """
    for given, name in ((dry_run, "--dry-run"), (public, "--public")):
        if given and not owner:
            raise InputError(f"{name} is for the hub: name the owner in --hub.")


def push(staged: Sequence[Upload], *, dry_run: bool, public: bool) -> list[dict[str, Any]]:
    """Push what was staged unless it is only to be looked at; return what is told of each repository."""
    from trace_assets.serving.release.hub import upload

    commits = [""] * len(staged) if dry_run else upload(staged, private=not public)
    return [
        {
            "repo": one.repo,
            "kind": one.kind,
            "folder": str(one.folder),
            "files": list(one.files),
            "commit": commit,
        }
        for one, commit in zip(staged, commits, strict=True)
    ]


def tell_pushed(pushed: Sequence[dict[str, Any]]) -> None:
    """Print one line a repository; one without a commit was not pushed."""
    for one in pushed:
        console().print(
            f"{'pushed' if one['commit'] else 'would push'} {escape(one['repo'])} from "
            f"{escape(one['folder'])}: "
            + ", ".join(f"{escape(name)} ({size:,} bytes)" for name, size in one["files"]),
            soft_wrap=True,
        )
