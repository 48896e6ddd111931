"""An environment as an OpenEnv package: server, client, Dockerfile."""

from __future__ import annotations

from collections.abc import Mapping

from trace_assets.synthesis.exports.package import Form, Subject, render

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
    values = {"package": subject.package, "class_name": subject.class_name, "title": subject.title}
    rendered = {name: render(f"openenv/{name}.jinja", **values) for name in _FILES}
    return {**rendered, "server/environment.txt": subject.source}


FORM = Form("openenv", "an OpenEnv package whose server runs in its own container", files, talks=True)
