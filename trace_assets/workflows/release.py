"""The release: what a study has taught, in one folder that can be served elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.routing import permitted
from trace_assets.environments.exports.package import FORMS, Subject, export_environment
from trace_assets.errors import CheckFailed, InputError
from trace_assets.evaluation.arms import SINGLES
from trace_assets.evaluation.choice import sentence
from trace_assets.evaluation.non_inferiority import acceptance
from trace_assets.records import (
    ArmSummary,
    BaseCheckpoint,
    Capability,
    CapabilitySpec,
    CompositionChoice,
    Contrast,
    Environment,
    EnvironmentCheck,
    EnvironmentVerdict,
    Label,
    NoHarm,
    Triage,
)
from trace_assets.resources.policy import base_checkpoint, whole_adapter, whole_base, whole_router
from trace_assets.resources.sandbox import known_permutation, permutation_for, sandbox_pool
from trace_assets.routing.label_logits import option_lines
from trace_assets.serving.release.documents import Evidence, card, count_labels, texts
from trace_assets.serving.release.manifest import (
    INDEX,
    NoHarmVerdict,
    Rate,
    Release,
    ReleasedAdapter,
    ReleasedBase,
    ReleasedChoice,
    ReleasedRouter,
    ReleasedTogether,
    may_be_replaced,
    write_manifest,
)
from trace_assets.store.content import text_version
from trace_assets.store.files import replacing_folder
from trace_assets.store.manifest import Entry
from trace_assets.study import Study
from trace_assets.system.vllm import Launch, served_name
from trace_assets.targets.seeds import SeedPermutation
from trace_assets.training.checkpoints import CONFIG, WEIGHTS, adapter_id
from trace_assets.workflows.serve import launch_of, released_arm, served_adapters, sum_folders

MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
"""What transformers and vLLM read of a model's folder."""


def write_release(study: Study, folder: Path) -> Release:
    """Write a release of a study; the same study gives the same bytes.

    Args:
        study: A study with a fitted router.
        folder: Made, or replaced as a whole where it holds an earlier release and nothing else.

    Returns:
        The index.

    Raises:
        CheckFailed: There is no adapter that a router may choose.
        InputError: The folder holds something else, an adapter is not the one that was validated, or the
            router was fitted for other adapters.
    """
    folder = folder.expanduser().absolute()
    may_be_replaced(folder)
    evidence = _evidence(study)
    base = base_checkpoint(study)
    with replacing_folder(folder) as building:
        for one in evidence:
            _copy_adapter(
                whole_adapter(study, one.adapter), building / _folder_of(one), one.adapter.adapter_id
            )
        chosen, may = study.store.read(CompositionChoice), permitted(study)
        release = Release(
            base=_copy_base(study, base, building),
            router=_copy_router(study, evidence, building / "router"),
            adapters=tuple(_released(one) for one in evidence),
            together=_copy_together(study, building),
            choice=ReleasedChoice(
                arm=released_arm(study),
                reason=sentence(chosen) if chosen else "",
                summed_only=tuple(sorted(set(may.choices) - set(may.alone))),
                set_cost=may.rule.cost,
                scale=may.rule.scale,
            ),
        )
        tested = study.store.read(ArmSummary)
        written = {
            **texts(release, _launch(study, release, building), tested, version("trace-assets")),
            **{_card_of(one): card(one) for one in evidence},
            INDEX: release.text(),
        }
        for name, text in written.items():
            (building / name).parent.mkdir(exist_ok=True)
            (building / name).write_text(text, encoding="utf-8")
        write_manifest(building)
    return release


def _evidence(study: Study) -> list[Evidence]:
    """Return the facts about every adapter that a router may choose, by name."""
    names = permitted(study).choices
    if not names:
        why = "; ".join(
            f"{one.name}: {acceptance(one).reason}"
            for one in read_adapters(study)
            if one.kind == "capability"
        )
        raise CheckFailed(
            "there is no adapter that a router may choose, so nothing is released "
            f"({why or 'none was trained'})."
        )
    adapters = {one.name: one for one in read_adapters(study)}
    capabilities = {row.capability_id: row for row in study.store.read(Capability)}
    environments = {row.environment_id: row for row in study.store.read(Environment)}
    harm = {row.adapter: row for row in study.store.read(NoHarm)}
    contrasts = {row.capability_id: row for row in study.store.read(Contrast)}
    checks, summary = study.store.read(EnvironmentCheck), study.store.read(ArmSummary)
    labels, triage = study.store.read(Label), study.store.read(Triage)
    found = []
    for name in names:
        adapter = adapters[name]
        if name not in capabilities:
            raise InputError(
                f"adapter '{name}' teaches a capability that is no longer on record; run `trace sync` first."
            )
        own = [row for row in checks if row.environment_id == adapter.environment_id]
        arm = [row for row in summary if row.arm == f"adapter:{name}"]
        found.append(
            Evidence(
                adapter=adapter,
                served_as=served_name(adapter.name, adapter.adapter_id),
                capability=capabilities[name],
                environment=environments.get(adapter.environment_id or ""),
                checks=sorted(own, key=lambda row: row.check_id),
                harm=harm.get(name),
                tested=sorted(arm, key=lambda row: (row.skill != "all", row.skill)),
                contrast=contrasts.get(name),
                labelled=count_labels(name, labels, triage),
            )
        )
    return found


def _folder_of(one: Evidence) -> str:
    return f"adapters/{one.served_as}"


def _card_of(one: Evidence) -> str:
    return f"cards/{one.served_as}.md"


def _copy_together(study: Study, building: Path) -> tuple[ReleasedTogether, ...]:
    """Copy the sums, or the one adapter for all, that validation chose; none where it chose routing."""
    found = {
        served: (choice, adapter_id(folder), folder)
        for served, (choice, folder) in sum_folders(study).items()
    }
    for served, adapter in served_adapters(study).items():
        if adapter.name in SINGLES:
            found[served] = (adapter.name, adapter.adapter_id, whole_adapter(study, adapter))
    copied = []
    for served, (name, identity, folder) in sorted(found.items()):
        _copy_adapter(folder, building / f"adapters/{served}", identity)
        copied.append(
            ReleasedTogether(name=name, served_as=served, adapter_id=identity, folder=f"adapters/{served}")
        )
    return tuple(copied)


def _copy_adapter(source: Path, target: Path, identity: str) -> None:
    target.mkdir(parents=True)
    for name in (CONFIG, WEIGHTS):
        if (source / name).is_file():
            _copy(source / name, target / name)
    if adapter_id(target) != identity:
        raise InputError(
            f"the adapter in {source} is not the one that was validated ({identity}); train it again."
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a file, and read the copy: what is written down in the manifest is what was meant."""
    wanted = Entry.of(source)
    shutil.copyfile(source, target)
    if Entry.of(target) != wanted:
        raise InputError(
            f"the copy {target} is not what {source} is; the disk may be failing. Release again."
        )


def _copy_base(study: Study, base: BaseCheckpoint, building: Path) -> ReleasedBase:
    """Copy a model that was made here, since it is nowhere else; name any other."""
    folder = whole_base(study, base)
    own = folder.is_relative_to(study.home.path)
    if own:
        (building / "base").mkdir()
        for pattern in MODEL_FILES:
            for file in sorted(folder.glob(pattern)):
                _copy(file, building / "base" / file.name)
    return ReleasedBase(
        base_id=base.base_id,
        folder="base" if own else "",
        model="a model that was trained in this study" if own else Path(base.path).name,
    )


def _copy_router(study: Study, evidence: list[Evidence], target: Path) -> ReleasedRouter:
    source = whole_router(study)
    target.mkdir()
    try:
        for name in ("router.json", "weights.npz"):
            _copy(source / name, target / name)
        fitted = json.loads((target / "router.json").read_text(encoding="utf-8"))
        choices, fitted_version = {str(name) for name in fitted["choices"]}, str(fitted["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "no router was fitted yet, or it cannot be read; run `trace sync --select routing` first."
        ) from error
    options = option_lines([one.capability for one in evidence])
    if choices != set(options):
        raise InputError(
            f"the router tells {', '.join(sorted(choices))} apart and the adapters to release are "
            f"{', '.join(options)}; run `trace sync --select routing` first."
        )
    section = study.settings.routing
    return ReleasedRouter(
        router=section.router,
        version=fitted_version,
        options=options,
        unneeded_cost=section.unneeded_cost,
    )


def _launch(study: Study, release: Release, building: Path) -> Launch:
    """Return how vLLM is started in the release's own folder, wherever that will be."""
    return _Relative(
        **vars(
            replace(
                launch_of(study),
                name=release.base.name,
                adapters={one.served_as: building / one.folder for one in release.adapters}
                | {one.served_as: building / one.folder for one in release.together},
            )
        )
    )


class _Relative(Launch):
    """A launch whose adapters' folders are written relative to the release that is being built."""

    def arguments(self) -> list[str]:
        """Return the arguments of `vllm serve`."""
        roots = {f"{name}={path}": f"{name}=adapters/{path.name}" for name, path in self.adapters.items()}
        return [roots.get(word, word) for word in super().arguments()]


def _released(one: Evidence) -> ReleasedAdapter:
    adapter = one.adapter
    return ReleasedAdapter(
        name=adapter.name,
        served_as=one.served_as,
        adapter_id=adapter.adapter_id,
        base_id=adapter.base_id,
        capability=one.capability.name,
        folder=_folder_of(one),
        card=_card_of(one),
        environment_id=adapter.environment_id,
        validation_before=Rate(
            value=adapter.validation_before,
            low=adapter.validation_before_low,
            high=adapter.validation_before_high,
            n=adapter.validation_n,
        ),
        validation_after=Rate(
            value=adapter.validation_after,
            low=adapter.validation_after_low,
            high=adapter.validation_after_high,
            n=adapter.validation_n,
        ),
        rejected=adapter.rejected,
        no_harm=NoHarmVerdict(verdict=one.harm.verdict, reason=one.harm.reason) if one.harm else None,
        isolation_level=adapter.isolation_level,
        sandbox_version=adapter.sandbox_version,
        recomputed=adapter.recomputed,
        recomputed_of=adapter.recomputed_of,
    )


def release_words(release: Release) -> Mapping[str, str]:
    """Return what a person is told of each adapter: served name -> one line."""
    return {
        one.served_as: f"{one.capability}: {one.validation_before.value:.0%} -> "
        f"{one.validation_after.value:.0%} on {one.validation_after.n} held-out episodes"
        for one in release.adapters
    }


# An environment out of the pipeline: a stored one or a file, in a form that another trainer takes.


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
