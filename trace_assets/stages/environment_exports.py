"""An environment out of the pipeline: a stored one or a file, in a form that another trainer takes."""

from __future__ import annotations

from pathlib import Path

from trace_assets.errors import CheckFailed, InputError
from trace_assets.records import CapabilitySpec, Environment, EnvironmentVerdict
from trace_assets.stages.permutations import known_permutation, permutation_for
from trace_assets.stages.synthesis import sandbox_pool
from trace_assets.store.content import text_version
from trace_assets.study import Study
from trace_assets.synthesis.exports.package import Subject
from trace_assets.synthesis.exports.registry import FORMS, export_environment
from trace_assets.targets.seed_permutation import SeedPermutation


def export(study: Study, which: str, form: str, folder: Path, *, anyway: bool = False) -> list[Path]:
    """Export an environment.

    Args:
        study: Its settings name the sandbox.
        which: A capability's id, or the path of a module.
        form: One of `FORMS`.
        folder: Where to.
        anyway: Also one that its audit did not accept.

    Returns:
        The files that were written.

    Raises:
        InputError: There is no such environment, form or usable folder.
        CheckFailed: The stored environment was not accepted.
    """
    if form not in FORMS:
        raise InputError(f"there is no export to '{form}'; there are {', '.join(FORMS)}.")
    name, title, source, permutation = _found(study, which, anyway)
    with sandbox_pool(study) as pool:
        subject = Subject(
            name,
            title,
            source,
            pool.environment(source),
            study.settings.sandbox.backend,
            permutation.key.hex(),
        )
        return export_environment(subject, form, folder)


def _found(study: Study, which: str, anyway: bool) -> tuple[str, str, str, SeedPermutation]:
    """Return name, title, source, and what it is given for seeds."""
    path = Path(which)
    if path.suffix == ".py" or path.is_file():
        try:
            source = path.read_text(encoding="utf-8")
            return path.stem, path.stem, source, permutation_for(study, text_version(source))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the module {path} cannot be read ({error}); name a Python file.") from error
    stored = study.store.partitions(Environment)
    rows = study.store.read(Environment, which) if which in stored else []
    if not rows:
        known = ", ".join(stored) or "none yet: run `trace sync` first"
        raise InputError(f"there is no environment '{which}' and no such file; there are {known}.")
    if anyway:
        permutation = permutation_for(study, rows[0].environment_id)
    else:
        _accepted(study, rows[0])
        permutation = known_permutation(study, rows[0])
    specs = study.store.read(CapabilitySpec, which)
    return which, specs[0].name if specs else which, rows[0].source, permutation


def _accepted(study: Study, environment: Environment) -> None:
    """Refuse what the audit did not accept."""
    name = environment.capability_id
    verdicts = [
        one
        for one in study.store.read(EnvironmentVerdict, name)
        if one.environment_id == environment.environment_id
    ]
    if not verdicts or not verdicts[0].accepted:
        why = "was not accepted by its audit" if verdicts else "was not audited"
        raise CheckFailed(
            f"the environment of '{name}' {why}: run `trace sync --select environment_verdict`, or export it "
            "with --anyway."
        )
