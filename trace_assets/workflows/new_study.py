"""The `trace.toml` that a study of one's own model begins with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from trace_assets.errors import InputError, Unavailable
from trace_assets.settings import Settings, Training
from trace_assets.system.machine import through_proxies
from trace_assets.targets.registry import benchmark_of
from trace_assets.training.presets import CPU, Choice

EMBEDDED = "embedded"
LONGER = {"max_turns": 30, "max_new_tokens": 512}
"""Limits of an episode on a CPU: those of the settings suit the embedded target alone."""
SIMULATED = ("scripted", "none")
"""Users of a benchmark that need no server."""
MEANT = {
    "lora_rank": "rank of the adapters",
    "learning_rate": "AdamW, after the warm-up",
    "iterations": "rounds of sampling and updating",
    "tasks_per_iteration": "groups an iteration",
    "group_size": "rollouts a group: 16 shows a signal at a pass rate of .05 in 56 % of groups, 8 in 34 %",
    "concurrency": "episodes in flight: their keys and values take GPU memory",
    "micro_batch": "episodes a forward pass: memory is the limit",
    "save_every": "iterations that a kill may cost",
    "sampler": "who plays the episodes",
    "shard": "the model is divided among the processes",
}


@dataclass(frozen=True)
class NewStudy:
    """What a first `trace.toml` says.

    Attributes:
        target: Name of a live target.
        module: File of your own target's module; empty for those that come with the package.
        model: Hugging Face folder or hub name; empty trains the tiny agent of the embedded target.
        choice: The preset for this machine.
        options: What the target is told, such as its simulated user.
        vllm: Whether vLLM can be imported here: it then plays, and starts and ends with each step.
        analyst: The model that reads the runs; empty leaves them to the rules.
        analyst_url: Its server.
    """

    target: str
    module: str
    model: str
    choice: Choice
    options: Mapping[str, Any] = field(default_factory=dict)
    vllm: bool = False
    analyst: str = ""
    analyst_url: str = ""


def user_options(target: str, user: str, model: str) -> dict[str, str]:
    """Return `targets.options` for a simulated user.

    Args:
        target: Name of the target.
        user: Address of an OpenAI-compatible server, `scripted`, `none`, or empty where nothing was said.
        model: The server's model; empty asks the server, which has to have one.

    Raises:
        InputError: The target has no such user, or it is not known which model is meant.
        Unavailable: The server does not answer, and no model was named.
    """
    benchmark = benchmark_of(target)
    if benchmark is None:
        if user:
            raise InputError(
                f"the target '{target}' takes no --user: what its describe() understands goes into "
                "[targets.options] of trace.toml."
            )
        return {}
    if target.endswith("_solo"):
        if user not in ("", "none"):
            raise InputError(f"in '{target}' nobody plays the user: leave --user away.")
        return {}
    if not user:
        raise InputError(
            f"'{target}' has a simulated user: name its server in --user http://HOST:PORT/v1, or take "
            "--user scripted, which needs none."
        )
    if user in SIMULATED:
        return {"user": user}
    if not re.match(r"https?://", user):
        raise InputError(f"--user '{user}' is no address (http://HOST:PORT/v1), nor scripted, nor none.")
    return {"user": "model", "user_base_url": user, "user_model": model or _only_model(user)}


def analyst_address(analyst: str, address: str, user: str) -> str:
    """Return the server of the model that reads the runs: the simulated user's unless another is named.

    Raises:
        InputError: A server without a model was named, or a model without a server.
    """
    if address and not analyst:
        raise InputError("--base-url is the server of the model in --analyst: name that one, too.")
    if not analyst:
        return ""
    found = address or (user if re.match(r"https?://", user) else "")
    if not found:
        raise InputError(f"name the server of the analyst '{analyst}' in --base-url http://HOST:PORT/v1.")
    return found


def _only_model(address: str) -> str:
    """Return the name of the one model that a server has."""
    try:
        answer = httpx.get(f"{address.rstrip('/')}/models", timeout=5, trust_env=through_proxies(address))
        names = [str(one["id"]) for one in answer.raise_for_status().json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise Unavailable(
            f"the user's server {address} does not say which models it has ({type(error).__name__}): start "
            "it, or name the model in --user-model."
        ) from error
    if len(names) != 1:
        said = ", ".join(names[:5]) or "none"
        raise InputError(f"the user's server {address} has not one model ({said}): name one in --user-model.")
    return names[0]


def settings_text(study: NewStudy) -> str:
    """Return a commented `trace.toml`; every value in it is one that the settings take."""
    gpu = study.choice.name != CPU
    training = _changed(study)
    engine = "vllm" if study.vllm else "transformers"
    parts = [
        f"# Written by `trace init` for {study.model or 'the tiny agent'} on {study.target}. "
        "Every other key: `trace settings`.\n"
        "# `trace plan` says what this takes, `trace run` does it and resumes.\n",
        "[targets]\n" + _line("name", study.target),
    ]
    if study.module:
        parts[-1] += _line("path", study.module)
    if study.options:
        parts.append(
            "[targets.options]          # what the target is told; keys of servers come from OPENAI_API_KEY\n"
            + "".join(_line(name, value) for name, value in study.options.items())
        )
    parts.append(
        "[base_model]\n"
        + _line("path", study.model, "a Hugging Face folder; empty: the tiny agent, trained from scratch")
    )
    rollouts = "[rollouts]\n" + _line("engine", engine, _of_engine(study))
    evaluation = "[evaluation]\n" + _line("engine", engine)
    if "max_turns" in training:
        limits = _line("max_turns", training["max_turns"], "longer episodes are cut off and judged")
        limits += _line("max_new_tokens", training["max_new_tokens"], "of one message")
        if gpu:
            limits += _line("concurrency", study.choice.section.concurrency)
        rollouts += _line("trials", 4, "episodes a task: few tasks want more") + limits
        evaluation += limits
    parts += [rollouts, evaluation]
    if study.analyst:
        parts.append(
            "[analyst]                  # reads the runs beside the rules; key from OPENAI_API_KEY\n"
            + _line("model", study.analyst, "of triage, candidates, labels, and of environments")
            + _line("base_url", study.analyst_url)
            + "# cap_usd = 5.0            # with prices (`trace settings analyst`): never exceeded\n"
        )
    told = f"# Preset {study.choice.name}: {study.choice.words}.\n"
    parts.append(
        told
        + "[training]\n"
        + (
            "".join(_line(key, value, MEANT.get(key, "")) for key, value in training.items())
            or "# all at their defaults, which suit a model of some hundred thousand weights\n"
        )
    )
    if not gpu and study.model:
        parts.append("[serving]\n" + _line("dtype", "float32", "on a CPU"))
    return "\n".join(parts)


def _of_engine(study: NewStudy) -> str:
    if study.vllm:
        return "vLLM starts with each step that plays and ends with it"
    return "plays without vLLM; with vLLM beside this interpreter: vllm"


def _changed(study: NewStudy) -> dict[str, Any]:
    """Return the training keys that differ from the defaults, the sampler that is there among them."""
    section, default = study.choice.section, Training()
    if study.choice.name == CPU and study.target != EMBEDDED:
        section = section.model_copy(update=LONGER)
    if study.vllm and study.choice.name != CPU and section.sampler == "transformers":
        section = section.model_copy(
            update={"sampler": "colocate", "sampler_arguments": _share(study.choice)}
        )
    values = section.model_dump(mode="json")
    defaults = default.model_dump(mode="json")
    return {
        name: value
        for name, value in values.items()
        if value != defaults[name]
        or (study.choice.name != CPU and name in ("max_turns", "max_new_tokens", "temperature"))
    }


def _share(choice: Choice) -> tuple[str, ...]:
    """Return what vLLM may take of a device that also trains: four tenths, the rest is the trainer's."""
    return ("--gpu-memory-utilization", "0.4") if choice.gib is not None else ()


def _line(name: str, value: Any, comment: str = "") -> str:
    text = f"{name} = {toml_value(value)}"
    return f"{text:<28} # {comment}\n" if comment else f"{text}\n"


def toml_value(value: Any) -> str:
    r"""Return a value as TOML has it.

    >>> toml_value(["a", 1, True]), toml_value(1e-05), toml_value('say "no"')
    ('["a", 1, true]', '1e-05', '"say \\"no\\""')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items()) + " }"
    return str(value)


def read_back(text: str) -> Settings:
    """Return the settings that a text stands for.

    Raises:
        InputError: It holds a value that is refused, such as an address with a password.
    """
    import tomllib

    from pydantic import ValidationError

    try:
        return Settings.model_validate(tomllib.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"'{where}' cannot stand in trace.toml: {first['msg']}.") from error


def find_model(named: str, target: str) -> str:
    """Return the model as the settings name it: an absolute folder, a hub name, or nothing.

    Args:
        named: What was given; may be empty for the embedded target alone.
        target: Name of the target.

    Raises:
        InputError: It is no model folder, or is missing where one is needed.
    """
    if not named:
        if target == EMBEDDED:
            return ""
        raise InputError(f"name the model in --model: a Hugging Face folder is needed on '{target}'.")
    folder = Path(named).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder} holds no config.json: --model names a Hugging Face folder.")
        return str(folder.absolute())
    if re.fullmatch(r"[\w.-]+/[\w.-]+", named) and not named.startswith("."):
        return named  # a name on the hub, which the client of the hub fetches
    raise InputError(
        f"there is no model folder {folder}; `hf download NAME --local-dir {folder}` fetches one."
    )
