"""A Ray cluster of three nodes in namespaces: each one core, a small object store and no dashboard."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from namespaces import PORT, ROOT, Machine, Network, plain_environment

STORE_BYTES = 100 * 2**20
SOON = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""As docs/cluster.md has users set it."""


class ThreeNodes:
    """The nodes n1 (with the head, where commands are given), n2 and n3.

    Args:
        shared: The folder that all of them see.
        logs: Folder for what they say.
    """

    def __init__(self, shared: Path, logs: Path) -> None:
        self.shared = shared
        self.network = Network(shared, logs)
        self.began = time.monotonic()
        self.head = self.start("n1")
        try:
            for name in ("n2", "n3"):
                self.start(name)
            self.wait_for(3)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Where the cluster answers."""
        return f"{self.network.machines['n1'].address}:{PORT}"

    def start(self, name: str, path: Path = ROOT) -> Machine:
        """Start a node, a new one or one that was lost.

        Args:
            name: Its host name.
            path: Folder with the code that its workers have.
        """
        joined = ["--head", f"--port={PORT}"] if name == "n1" else [f"--address={self.address}"]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *joined]
        command += [
            f"--node-name={name}",
            "--node-ip-address={address}",
            "--num-cpus=1",
            f"--object-store-memory={STORE_BYTES}",
        ]
        command += ["--include-dashboard=false"] if name == "n1" else []
        command += ["--disable-usage-stats", "--block"]
        return self.network.start(name, command, self.variables(path))

    def variables(self, path: Path = ROOT) -> dict[str, str]:
        """Return the environment of a node."""
        folders = [str(path), str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        # Cores are few here, and each library would start a thread a core in each of many processes.
        return {**SOON, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}

    def wait_for(self, nodes: int, seconds: float = 300) -> None:
        """Wait until so many nodes are at work."""
        code = (
            "import ray; ray.init(address='auto', logging_level='ERROR', log_to_driver=False); "
            "print('alive', sum(node['Alive'] for node in ray.nodes()))"
        )
        give_up = time.monotonic() + seconds
        said = ""
        while f"alive {nodes}" not in said:
            assert time.monotonic() < give_up, f"not {nodes} nodes: {said}\n{self.said()}"
            done = self.run(sys.executable, "-c", code)
            said, _ = done.communicate(timeout=120)
            time.sleep(0.5)

    def run(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Begin a command on the first node."""
        given = {
            **plain_environment(),
            **self.variables(),
            "RAY_ADDRESS": self.address,
            "HOME": "/tmp/home",
            **variables,
        }
        return subprocess.Popen(
            self.head.inside(*command),
            env=given,
            cwd=self.shared,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def trace(self, home: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Begin a command of the program on the first node."""
        said = {"TRACE_HOME": str(home), "TRACE__CLUSTER__ENGINE": "ray", **variables}
        return self.run(sys.executable, "-m", "trace_assets", *arguments, **said)

    def said(self) -> str:
        """Return what the nodes said."""
        return "\n".join(
            f"{file.name}: {file.read_text()}" for file in sorted(self.network.logs.glob("*.log"))
        )

    def close(self) -> None:
        """End all of them."""
        self.network.close()
