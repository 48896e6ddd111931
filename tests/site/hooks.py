"""What the docs site has beside the pages: generated references, example reports, plots; links that leave."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path

from tests.site.pages import generated  # noqa: E402

_FENCED = re.compile(r"(```.*?```)", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add what is made from the code."""
    for name, content in generated().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links the way a site has them: what is not in docs/ is named, not linked."""
    folder = posixpath.dirname(page.file.src_uri)
    pieces = _FENCED.split(markdown)
    pieces[::2] = [_LINK.sub(lambda link: _link(link, folder), piece) for piece in pieces[::2]]
    return "".join(pieces)


def _link(link: re.Match[str], folder: str) -> str:
    words, goal = link[1], link[2]
    if goal.startswith(("http://", "https://", "#", "mailto:")):
        return link[0]
    path, _, anchor = goal.partition("#")
    full = posixpath.normpath(posixpath.join(folder, path))
    if full == "../CONTRIBUTING.md":
        return f"[{words}]({posixpath.relpath('contributing.md', folder or '.')})"
    if full.startswith("../"):
        return words
    if path.endswith("/"):
        path += "README.md"
    return f"[{words}]({path}{'#' + anchor if anchor else ''})"
