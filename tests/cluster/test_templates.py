"""The templates of docs/examples/cluster: they parse and say the same; the script over ssh is run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from trace_assets.settings import load_settings

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "cluster"
HEALTH = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def shell(text: str) -> None:
    done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_all_of_them_are_tried_here_and_named_on_the_page() -> None:
    names = sorted(file.name for file in FOLDER.iterdir())
    assert names == ["kuberay.yaml", "skypilot.yaml", "slurm.sbatch", "ssh.sh"]
    page = (FOLDER.parents[1] / "cluster.md").read_text(encoding="utf-8")
    assert all(f"examples/cluster/{name}" in page for name in names)


@pytest.mark.parametrize("name", ["kuberay.yaml", "skypilot.yaml", "slurm.sbatch", "ssh.sh"])
def test_each_has_lost_nodes_noticed_as_the_page_says(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    for variable, value in HEALTH.items():
        assert re.search(rf'{variable}(=|: |, value: )"?{value}\b', text), variable


def test_the_ray_cluster_of_kubernetes_shares_one_folder_and_works_on_workers_alone() -> None:
    found = read("kuberay.yaml")
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", "RayCluster")
    head, (workers,) = found["spec"]["headGroupSpec"], found["spec"]["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    pods = [head["template"]["spec"], workers["template"]["spec"]]
    for pod in pods:
        (container,) = pod["containers"]
        variables = {one["name"]: one["value"] for one in container["env"]}
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert variables == {"TRACE_HOME": "/shared/study", **HEALTH} and mounts == {"shared": "/shared"}
        assert [volume["name"] for volume in pod["volumes"]] == ["shared"]
    assert pods[0]["containers"][0]["image"] == pods[1]["containers"][0]["image"]
    # KubeRay puts it into a shell's words as it stands.
    assert eval(workers["rayStartParams"]["resources"].strip("'").replace("\\", "")[1:-1]) == {"sandbox": 4}


def test_the_task_of_skypilot_is_shell_and_its_settings_are_known() -> None:
    found = read("skypilot.yaml")
    assert found["num_nodes"] == 3 and list(found["volumes"]) == ["/shared"]
    shell(found["setup"])
    shell(found["run"])
    said = {name: value for name, value in found["envs"].items() if name.startswith("TRACE__")}
    assert load_settings(None, [], said).cluster.engine == "ray"
    assert found["envs"]["TRACE_HOME"].startswith("/shared/")


def test_the_job_of_slurm_is_shell() -> None:
    text = (FOLDER / "slurm.sbatch").read_text(encoding="utf-8")
    shell(text)
    lines = text.splitlines()
    last = max(n for n, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[:last]), "no #SBATCH is read after a command"
    assert "--ntasks-per-node=1" in text and "TRACE__CLUSTER__ENGINE=ray" in text


def over_ssh(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script with an ssh that says what it is asked for, and runs it with a ray that says so too."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name, text in {
        "ssh": 'echo "on $1"; PATH=/usr/bin:/bin; [ "$1" != gone ] || exit 255; exec sh -c "$2"',
        "ray": 'echo "$RAY_health_check_period_ms"; for word in "$@"; do echo "<$word>"; done',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "venv").mkdir(exist_ok=True)
    if not (tmp_path / "venv" / "bin").exists():
        (tmp_path / "venv" / "bin").symlink_to(programs)
    return subprocess.run(
        ["sh", str(FOLDER / "ssh.sh"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "TRACE_VENV": str(tmp_path / "venv"),
            **variables,
        },
    )


def test_over_ssh_the_first_host_has_the_head_and_the_others_join_it(tmp_path: Path) -> None:
    done = over_ssh(tmp_path, "up", "a", "b", TRACE_SANDBOX="4")
    assert done.returncode == 0, done.stderr
    offers = '<--resources={"sandbox": 4}>'
    assert done.stdout.splitlines() == [
        *("on a", "1000", "<start>", "<--head>", "<--port=6379>", offers),
        *("on b", "1000", "<start>", "<--address=a:6379>", offers),
    ]
    assert over_ssh(tmp_path, "up", "gone", "b").returncode != 0, "without its head nothing is begun"


def test_over_ssh_all_hosts_end_though_one_does_not_answer(tmp_path: Path) -> None:
    done = over_ssh(tmp_path, "down", "gone", "b")
    assert done.returncode == 0 and "gone did not answer" in done.stderr
    assert done.stdout.splitlines()[-1] == "<stop>" and "on b" in done.stdout
    for wrong in ((), ("up",), ("away", "a")):
        assert over_ssh(tmp_path, *wrong).returncode == 2
