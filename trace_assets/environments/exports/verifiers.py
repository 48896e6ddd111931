"""An environment as a taskset for verifiers v1."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trace_assets.environments.exports.package import Form, Subject, render


def files(subject: Subject) -> Mapping[str, str]:
    """Return the files of the export."""
    values = {
        "package": subject.package,
        "class_name": subject.class_name,
        "title": subject.title,
        "backend": subject.backend,
        "seed_key": subject.seed_key,
    }
    rendered = {
        name: render(f"verifiers/{template}.jinja", **values)
        for name, template in {
            f"{subject.package}/__init__.py": "__init__.py",
            f"{subject.package}/taskset.py": "taskset.py",
            f"{subject.package}/tool_server.py": "tool_server.py",
            "pyproject.toml": "pyproject.toml",
            "README.md": "README.md",
        }.items()
    }
    return {
        **rendered,
        f"{subject.package}/environment.txt": subject.source,
        f"{subject.package}/tools.json": json.dumps(subject.tools(), ensure_ascii=False, indent=1) + "\n",
    }


FORM = Form(
    "verifiers", "a taskset for verifiers v1, with its tool server and its reward", files, talks=False
)
