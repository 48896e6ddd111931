"""What a study serves: the base model, its accepted adapters and their sums; and does it say the same?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trace_assets.assets.adapter import read_adapters
from trace_assets.assets.adapter_validation import sums_of
from trace_assets.assets.joint_adapters import opposed
from trace_assets.assets.routing import permitted, settled
from trace_assets.errors import InputError, TraceError, require_extra
from trace_assets.evaluation.arms import BASE as BASE_ARM
from trace_assets.evaluation.arms import COMPOSED, ROUTED, SINGLES, SUM
from trace_assets.evaluation.choice import chosen_arm
from trace_assets.evaluation.non_inferiority import acceptance
from trace_assets.records import Adapter, Capability, CompositionChoice, Route, ServedParity, Task
from trace_assets.resources.policy import base_folder, whole_adapter, whole_router
from trace_assets.routing.router import JOINING, candidate_sets, members_of, models_for, set_name
from trace_assets.study import Study
from trace_assets.system.progress import progress
from trace_assets.system.vllm import BASE, Launch, largest_rank, served_name
from trace_assets.training.checkpoints import adapter_id
from trace_assets.training.composition import composition_id, refusal

if TYPE_CHECKING:
    from trace_assets.serving.router.app import RouterName, ServedRouting

EXACT = 1e-3
SHORT_FLOATS = 0.25
"""Nats: bfloat16 keeps 8 bits, so a logit near 10 moves by a few hundredths at a time."""


def released_arm(study: Study) -> str:
    """Return which way of putting adapters together is served: what validation chose.

    `serving.compose` decides against it where it is set: false keeps sums away, true serves them.
    """
    asked, arm = study.settings.serving.compose, chosen_arm(study.store.read(CompositionChoice))
    if asked is True and arm in (ROUTED, BASE_ARM):
        return COMPOSED
    return ROUTED if asked is False and arm in (COMPOSED, SUM) else arm


def served_sums(study: Study) -> tuple[dict[str, str], list[str]]:
    """Return which sums of adapters this study's server holds beside the adapters themselves.

    Args:
        study: The study; where neither validation nor `serving.compose` is for it there are none.

    Returns:
        Choice, such as `cancel+window`, to the name it is served by, which follows from the members' content;
        and why others are not served.
    """
    served: dict[str, str] = {}
    refused: list[str] = []
    arm, may = released_arm(study), permitted(study)
    if arm not in (COMPOSED, SUM):
        return served, refused
    own = {row.name: row for row in read_adapters(study)}
    most = largest_rank(study.settings.serving.extra)
    apart = opposed(study)
    for members in may.sets if arm == COMPOSED else candidate_sets(may.choices)[-1:]:
        why = " ".join(reason for pair, reason in apart.items() if pair <= set(members))
        if why or (why := refusal({name: whole_adapter(study, own[name]) for name in members}, most)):
            refused.append(why)
        else:
            together = JOINING in members
            identity = composition_id(
                [own[name].adapter_id for name in members if name != JOINING],
                own[JOINING].scale if together else may.rule.scale,
                [own[JOINING].adapter_id] if together else [],
            )
            served[set_name(members)] = served_name("sum", identity)
    return served, refused


def routing_of_study(study: Study, router: RouterName | None = None) -> ServedRouting:
    """Return what a router proxy in front of this study's server is told.

    Args:
        study: The study.
        router: Which router; None takes the one of the settings.
    """
    from trace_assets.routing.label_logits import option_lines
    from trace_assets.serving.router.app import ServedRouting

    may = permitted(study)
    choices = may.choices
    named = {row.capability_id: row for row in study.store.read(Capability)}
    served = {row.name: served_name(row.name, row.adapter_id) for row in read_adapters(study)}
    singles = {name: served[name] for name in SINGLES if name in served}
    return ServedRouting(
        router=router or study.settings.routing.router,
        options=option_lines([named[name] for name in choices]),
        models=models_for(
            released_arm(study),
            {name: served[name] for name in choices},
            served_sums(study)[0],
            singles,
            BASE,
            summed_only=set(choices) - set(may.alone),
        ),
        fitted=whole_router(study),
        base=base_folder(study),
        unneeded_cost=study.settings.routing.unneeded_cost,
        set_cost=may.rule.cost,
    )


def route_text(study: Study, text: str) -> Route:
    """Say where a task would be sent.

    Raises:
        InputError: No router was fitted yet.
    """
    require_extra("torch", "train", "routing")
    from trace_assets.routing.classifier import load_classifier

    folder = whole_router(study)
    if not folder.is_dir():
        raise InputError(
            "no router was fitted yet; run `trace sync --select routing` (or `trace demo`) first."
        )
    task = Task(task_id="text", target="", task_batch="", instruction=text)
    if not text.strip():
        raise InputError("the task text is empty; give the first user message.")
    return settled(study, load_classifier(folder, base_folder(study)).route([task]), permitted(study).alone)[
        0
    ]


def served_adapters(study: Study) -> dict[str, Adapter]:
    """Return what is worth serving by served name: accepted adapters of capabilities and of the mixed arm.

    One adapter for all is served where validation chose it.
    """
    arm = released_arm(study)
    return {
        served_name(adapter.name, adapter.adapter_id): adapter
        for adapter in read_adapters(study)
        if adapter.kind != JOINING
        and (adapter.name == arm if adapter.name in SINGLES else acceptance(adapter).accepted)
    }


def sum_folders(study: Study) -> dict[str, tuple[str, Path]]:
    """Return served name to choice and folder of the sums of adapters that are served; they are made here.

    Raises:
        InputError: One cannot be made.
        Unavailable: The train extra is missing, which adding needs.
    """
    served, _ = served_sums(study)
    if not served:
        return {}
    most = largest_rank(study.settings.serving.extra)
    scale = permitted(study).rule.scale
    made, refused = sums_of(study, [members_of(choice) for choice in served], most, scale)
    if refused:
        raise InputError(f"{' '.join(refused)} Serve without sums: serving.compose = false.")
    return {name: (choice, made[choice]) for choice, name in served.items()}


def launch_of(study: Study) -> Launch:
    """Return how vLLM is started for this study.

    Raises:
        InputError: There is no base model yet.
    """
    section = study.settings.serving
    return Launch(
        model=str(base_folder(study)),
        name=BASE,
        adapters={name: whole_adapter(study, one) for name, one in served_adapters(study).items()}
        | {name: folder for name, (_, folder) in sum_folders(study).items()},
        host=section.host,
        port=section.port,
        dtype=section.dtype,
        max_model_len=section.max_model_len,
        max_num_seqs=section.max_num_seqs,
        tool_parser=section.tool_parser,
        kv_cache_gib=section.kv_cache_gib,
        extra=section.extra,
    )


def log_file(study: Study) -> Path:
    """Return where the server's words go."""
    folder = study.home.path / "serving"
    folder.mkdir(exist_ok=True)
    return folder / "server.log"


def tolerance(study: Study) -> float:
    """Return what a log-probability may differ by, in nats."""
    section = study.settings.serving
    return section.tolerance or (EXACT if section.dtype == "float32" else SHORT_FLOATS)


def check_served(study: Study, base_url: str) -> list[ServedParity]:
    """Compare every adapter on a server with the model that was trained, and write `served_parities`.

    Whole episodes of validation tasks are played through the server, which returns its token ids and
    log-probabilities; PEFT's own forward pass scores the same tokens.

    Args:
        study: The study.
        base_url: The server; it must serve the adapters by their served names.

    Returns:
        One row an adapter. A comparison that could not be made is a row that did not pass.

    Raises:
        Unavailable: The train extra is missing.
    """
    require_extra("torch", "train", "comparing a server with the trained model")
    rows = []
    compared = {
        name: (adapter.name, adapter.adapter_id, whole_adapter(study, adapter))
        for name, adapter in served_adapters(study).items()
    }
    for name, (choice, folder) in sum_folders(study).items():
        compared[name] = (choice, adapter_id(folder), folder)
    with progress("compare server and trained model", len(compared)) as bar:
        for name, (called, identity, folder) in compared.items():
            rows.append(_compare(study, base_url, name, called, identity, folder))
            bar.advance(note=called)
    study.store.write(rows, ServedParity)
    return rows


def _compare(
    study: Study, base_url: str, name: str, called: str, identity: str, folder: Path
) -> ServedParity:
    from trace_assets.policies.openai_server import OpenAIPolicy
    from trace_assets.training.validation import adapter_parity

    training, section, allowed = study.settings.training, study.settings.serving, tolerance(study)
    policy = OpenAIPolicy(
        base_url,
        BASE,
        temperature=training.temperature,
        max_new_tokens=training.max_new_tokens,
        return_token_ids=True,
    )
    row = ServedParity(
        adapter=called,
        adapter_id=identity,
        served_as=name,
        server=base_url,
        dtype=section.dtype,
        n_tokens=0,
        n_episodes=0,
        max_difference=0.0,
        mean_difference=0.0,
        kl=0.0,
        effect=0.0,
        base_difference=0.0,
        tolerance=allowed,
        passed=False,
        detail="",
    )
    try:
        found = adapter_parity(
            study.target,
            list(study.target.tasks("validation"))[: section.parity_tasks],
            policy,
            name,
            base_dir=base_folder(study),
            folder=folder,
            max_turns=training.max_turns,
            temperature=training.temperature,
            tolerance=allowed,
        )
    except TraceError as error:
        return row.model_copy(update={"detail": f"not compared: {error}"})
    return row.model_copy(
        update={
            "n_tokens": found.tokens,
            "n_episodes": found.episodes,
            "max_difference": found.max_difference,
            "mean_difference": found.mean_difference,
            "kl": found.kl,
            "effect": found.effect,
            "base_difference": found.base_difference,
            "passed": found.problem is None,
            "detail": found.sentence,
        }
    )
