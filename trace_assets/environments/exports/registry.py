"""The forms in which an environment can be exported."""

from __future__ import annotations

from pathlib import Path

from trace_assets.environments.exports import openenv, trl, verifiers
from trace_assets.environments.exports.package import Form, Subject, write_package
from trace_assets.errors import InputError

FORMS: dict[str, Form] = {form.name: form for form in (openenv.FORM, trl.FORM, verifiers.FORM)}


def export_environment(subject: Subject, form: str, folder: Path) -> list[Path]:
    """Write an environment in a form; see `write_package`.

    Raises:
        InputError: There is no such form, or it cannot carry the environment.
    """
    if form not in FORMS:
        raise InputError(f"there is no export to '{form}'; there are {', '.join(FORMS)}.")
    return write_package(FORMS[form], subject, folder)
