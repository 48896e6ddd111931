"""Run by a Python that has openenv: serves an exported package and plays scripts through its client."""

import asyncio
import importlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


def main() -> None:
    folder, class_name = Path(sys.argv[1]), sys.argv[2]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "server.app:app", "--port", str(port), "--log-level", "error"],
        cwd=folder,
    )
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60)
                break
            except OSError:
                time.sleep(0.1)
        sys.path.insert(0, str(folder.parent))
        package = importlib.import_module(folder.name)
        episodes = json.load(sys.stdin)
        print(json.dumps(asyncio.run(play(package, class_name, f"http://127.0.0.1:{port}", episodes))))
    finally:
        server.terminate()
        server.wait(600)


async def play(package, class_name, url, episodes):
    told = []
    async with getattr(package, f"{class_name}Env")(base_url=url) as env:
        for episode in episodes:
            result = await env.reset(seed=episode["seed"])
            first, tools, answers = result.observation.messages, result.observation.tools, []
            for action in episode["actions"]:
                fields = {name: action[name] for name in ("content", "tool_calls") if name in action}
                result = await env.step(getattr(package, f"{class_name}Action")(**fields))
                seen = result.observation
                answers.append({"messages": seen.messages, "done": seen.done, "truncated": seen.truncated})
                if result.done:
                    break
            if not result.done:
                result = await env.step(getattr(package, f"{class_name}Action")(judge=True))
            told.append(
                {
                    "first": first,
                    "tools": tools,
                    "answers": answers,
                    "verdict": result.observation.verdict,
                    "reward": result.reward,
                }
            )
    return told


if __name__ == "__main__":
    main()
