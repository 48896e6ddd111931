"""Puts the folders that lie beside the package into it when it is built; all else is in `pyproject.toml`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("sandboxes", "sql")


class BuildWithFolders(build_py):
    """Copies `sandboxes/` and `sql/` to `trace_assets/`, where `trace_assets.shipped` looks for them."""

    def run(self) -> None:
        """Build the package. An editable installation reads the folders of the checkout."""
        super().run()
        if self.editable_mode:
            return
        for name in FOLDERS:
            place = Path(self.build_lib, "trace_assets", name)
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(name, place, ignore=shutil.ignore_patterns("__pycache__", ".*"))


setup(cmdclass={"build_py": BuildWithFolders})
