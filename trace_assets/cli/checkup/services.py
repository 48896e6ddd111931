"""What runs beside the program: Docker, bubblewrap, a server that holds a model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.checkup.machine import TRAINING, Door, Finding
from trace_assets.records import SandboxCheck
from trace_assets.study import Study
from trace_assets.system.machine import through_proxies
from trace_assets.system.progress import progress

_SECONDS = 3
START_DOCKER = 'eval "$(sh sandboxes/start_docker.sh up)"'


def docker_daemon(study: Study) -> list[Finding]:
    """Look at the Docker daemon: whether it answers, what it isolates with, whether the image is there."""
    import docker
    import docker.errors
    import requests

    backend = study.settings.sandbox.backend
    only = backend == "docker" or (backend == "auto" and not shutil.which("bwrap"))
    needed = TRAINING if only else ()
    where = os.environ.get("DOCKER_HOST", "its default address")
    try:
        with closing(docker.from_env(timeout=_SECONDS, version="auto")) as client:
            info = client.info()
            images = {tag for image in client.images.list() for tag in image.tags}
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        detail = f"no daemon answers at {where} ({type(error).__name__})"
        fix = f"as root: {START_DOCKER}; otherwise `sudo systemctl start docker`, or set DOCKER_HOST"
        if backend == "auto" and not only:
            fix += "; until then bubblewrap is taken, which isolates less"
        return [Finding("docker", "missing", detail, needed, fix)]
    return [_daemon(info, where, needed), _image(images, needed)]


def _daemon(info: dict[str, Any], where: str, needed: tuple[Door, ...]) -> Finding:
    group = f"cgroup {info.get('CgroupVersion', '1')}"
    detail = f"{info.get('ServerVersion')} at {where}, {group}, storage {info.get('Driver')}"
    limits = [name for name in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if info.get(name) is False]
    if limits:
        detail += f"; it cannot keep to {', '.join(limits)}"
        fix = "boot with `cgroup_enable=memory swapaccount=1`, or use a daemon with cgroup 2"
        return Finding("docker", "degraded", detail, needed, fix)
    return Finding("docker", "ok", detail, needed)


def _image(images: set[str], needed: tuple[Door, ...]) -> Finding:
    from trace_assets.sandbox.image import OFFLINE_BASE, REGISTRY_BASE, image_tag

    if image_tag() in images:
        return Finding("sandbox image", "ok", f"{image_tag()} is built", needed)
    base = next((name for name in (REGISTRY_BASE, OFFLINE_BASE) if name in images), None)
    if base is not None:
        return Finding("sandbox image", "ok", f"built when first needed, on {base}, which is here", needed)
    detail = f"not built; {REGISTRY_BASE} is pulled, or a base made of Debian packages, when first needed"
    return Finding("sandbox image", "degraded", detail, needed, f"docker pull {REGISTRY_BASE}")


def bubblewrap(study: Study, docker_works: bool) -> Finding:
    """Look at bubblewrap, which takes Docker's place where the settings say so."""
    backend = study.settings.sandbox.backend
    needed = TRAINING if backend == "bubblewrap" or (backend == "auto" and not docker_works) else ()
    program = shutil.which("bwrap")
    if program is None:
        return Finding("bubblewrap", "missing", "not installed", needed, "sudo apt-get install bubblewrap")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=5, check=False)
    version = done.stdout.strip() or "of unknown version"
    for name in ("user/max_user_namespaces", "kernel/unprivileged_userns_clone"):
        path = Path("/proc/sys", name)
        if path.is_file() and path.read_text().strip() == "0":
            setting = name.replace("/", ".")
            fix = f"sudo sysctl -w {setting}={65536 if 'max' in name else 1}"
            return Finding("bubblewrap", "missing", f"{version}, but {setting} is 0", needed, fix)
    return Finding("bubblewrap", "ok", version, needed)


def sandbox(study: Study) -> list[Finding]:
    """Try the sandbox from its start to the verdict of an episode, and time it."""
    from trace_assets.resources.sandbox import sandbox_config
    from trace_assets.sandbox.timing import probe

    found = []
    for result in probe(sandbox_config(study)):
        name, doors = f"sandbox: {result.name}", TRAINING
        if result.status == "ok":
            found.append(Finding(name, "ok", result.detail, doors))
        elif result.status == "slow":
            fix = "end other programs: the target is for an idle machine"
            found.append(Finding(name, "degraded", result.detail, doors, fix))
        else:
            fix = f"{START_DOCKER}, or `sudo apt-get install bubblewrap`"
            found.append(Finding(name, "missing", result.detail, doors, fix))
    return found


def model_servers(study: Study) -> list[Finding]:
    """Look at the servers that the settings name: the one that acts, the analyst's and the writer's."""
    from trace_assets.resources.analysts import reading_models, writing_models

    settings, found = study.settings, []
    if settings.rollouts.engine == "openai":
        acting = settings.rollouts
        for url in acting.base_url.split(","):  # several share the load
            found.append(
                _server("model server", url.strip(), [acting.model], "OPENAI_API_KEY", "rollouts", TRAINING)
            )
    for name, section, models, doors in (
        ("analyst", settings.analyst, reading_models(study), (Door.diagnose,)),
        ("writer", settings.writer_server, writing_models(study), TRAINING),
    ):
        if models and (section.base_url or not section.recording):
            where = (section.base_url, models, section.key_variable, name, doors)
            found.append(_server(f"{name}'s server", *where))
    return found


def _server(
    name: str, base_url: str, models: list[str], variable: str, section: str, doors: tuple[Door, ...]
) -> Finding:
    import httpx

    from trace_assets.policies.openai_faults import public_url

    if not base_url:
        fix = f"--set {section}.base_url=http://127.0.0.1:8000/v1"
        return Finding(name, "missing", f"{section}.base_url is empty", doors, fix)
    shown = public_url(base_url) or f"{section}.base_url"
    key = os.environ.get(variable, "")
    fix = f"vllm serve {models[0] or 'MODEL'}  # or correct {section}.base_url, or set {variable}"
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = httpx.get(
            f"{base_url.rstrip('/')}/models",
            timeout=_SECONDS,
            headers=headers,
            trust_env=through_proxies(base_url),
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Finding(name, "missing", f"{shown} does not answer ({type(error).__name__})", doors, fix)
    if answer.status_code in (401, 403):
        detail = f"{shown} wants a key (HTTP {answer.status_code})"
        return Finding(name, "missing", detail, doors, f"export {variable}=...")
    if answer.status_code >= 400:
        return Finding(name, "degraded", f"{shown} lists no models (HTTP {answer.status_code})", doors, fix)
    try:
        served = {str(one["id"]) for one in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return Finding(name, "degraded", f"{shown} lists its models in an unknown way", doors, fix)
    absent = [model for model in models if model not in served]
    if absent:
        has = ", ".join(sorted(served)[:5]) or "nothing"
        return Finding(name, "missing", f"{shown} serves {has}; not {', '.join(absent)}", doors, fix)
    return Finding(name, "ok", f"{shown} serves {', '.join(models)}", doors)


# `trace doctor --sandbox`: every attack on this machine's own sandbox.


COLOURS = {"pass": "green", "fail": "red", "skip": "yellow"}


def attack_sandbox(study: Study, console: Console, as_json: bool) -> int:
    """Play the battery, store it in tables and in Dagster's history, and print it.

    Returns:
        The exit code: 0 when every attack was held, 1 when one was not.

    Raises:
        SandboxUnavailable: There is no sandbox.
    """
    from trace_assets.orchestration.configuration import report_battery
    from trace_assets.orchestration.instance import prepare_instance
    from trace_assets.sandbox.selftest.runner import battery_size
    from trace_assets.workflows.sandbox_selftest import Present, check_sandbox

    with progress("attacks on the sandbox", battery_size()) as bar:
        rows = check_sandbox(study, listen=lambda played: bar.advance(note=played.name))
    present = Present(rows[0].sandbox_version, rows[0].isolation_level)
    with prepare_instance(study.home) as instance:
        judged = report_battery(instance, study, present)
    if as_json:
        document = {
            "passed": judged.passed,
            "detail": judged.detail,
            "sandbox_version": present.version,
            "isolation_level": present.isolation_level,
            "counts": dict(Counter(row.status for row in rows)),
            "attacks": [row.model_dump(mode="json") for row in rows],
        }
        print(json.dumps(document, indent=2))
    else:
        _show(rows, console)
        colour = "green" if judged.passed else "red"
        console.print(f"[{colour}]{escape(judged.detail)}[/]", soft_wrap=True)
    return 0 if judged.passed else 1


def _show(rows: Sequence[SandboxCheck], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("", "attack", "expected", "outcome"):
        table.add_column(title, overflow="fold")
    table.add_column("time", justify="right")
    family = ""
    for row in rows:
        if row.family != family:
            family = row.family
            table.add_row("", f"[bold]{family}[/]")
        outcome = row.outcome or f"skipped: {row.detail}"
        if row.status == "fail":
            outcome += f": {'; '.join([*row.effects, row.detail])[:400]}"
        colour = COLOURS[row.status]
        late = "" if row.control_ms is None else f" (+{row.control_ms:.0f} ms)"
        table.add_row(
            f"[{colour}]{row.status}[/]",
            row.attack,
            row.expected,
            escape(outcome),
            f"{row.seconds:.2f} s{late}" if row.status != "skip" else "",
        )
    console.print(table)


def battery_finding(study: Study) -> Finding:
    """Look at what the last battery said, and whether it was of the sandbox in use."""
    from trace_assets.workflows.sandbox_selftest import COMMAND, judge_battery, present_sandbox

    judged = judge_battery(study.store.read(SandboxCheck), present_sandbox(study))
    if judged.passed:
        return Finding("sandbox: attacks", "ok", judged.detail, TRAINING)
    if judged.passed is None:
        return Finding("sandbox: attacks", "degraded", judged.detail, TRAINING, COMMAND)
    fix = "trace sql sandbox_attacks; update Docker and the kernel, then run the battery again"
    return Finding("sandbox: attacks", "missing", judged.detail, TRAINING, fix)
