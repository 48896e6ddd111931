"""An environment as an OpenEnv package: server, client, Dockerfile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trace_assets.environments.exports.package import Form, Subject, render
from trace_assets.targets import seeds

_FILES = (
    "README.md",
    "__init__.py",
    "client.py",
    "models.py",
    "openenv.yaml",
    "pyproject.toml",
    "server/Dockerfile",
    "server/__init__.py",
    "server/app.py",
    "server/episode.py",
    "server/runner.py",
    "server/served_environment.py",
)


def files(subject: Subject) -> Mapping[str, str]:
    """Return the files of the export."""
    values = {
        "package": subject.package,
        "class_name": subject.class_name,
        "title": subject.title,
        "seed_key": subject.seed_key,
    }
    rendered = {name: render(f"openenv/{name}.jinja", **values) for name in _FILES}
    own = {"server/environment.txt": subject.source}
    if subject.seed_key:
        own["server/seed_permutation.py"] = Path(seeds.__file__).read_text(encoding="utf-8")
    return {**rendered, **own}


FORM = Form("openenv", "an OpenEnv package whose server runs in its own container", files, talks=True)
