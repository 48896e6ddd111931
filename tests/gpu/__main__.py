"""`python -m tests.gpu [--rehearse] [--parts a,b] [--cases c,d] [--out FOLDER] [--minutes N]`.

Every part runs in a process of its own with its own time: one that fails, hangs or takes the device down is a
line in the table. Lines are kept as JSON beside the table, so that several calls make one table.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.gpu.results import LINES, Asked, Skip, last_line, read_lines
from tests.gpu.table import page, summary

PARTS: dict[str, float] = {
    "device": 60,
    "parity": 150,
    "throughput": 240,
    "memory": 180,
    "nccl": 75,
    "loop": 480,
    "vllm_server": 300,
    "vllm_in_process": 240,
    "vllm_colocate": 300,
    "container": 180,
}
"""Every part, in the order of its worth, and the seconds it may take."""
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("torch", "triton", "transformers", "peft", "trl", "accelerate", "safetensors", "numpy", "vllm"),
    *("trace-assets",),
)
GRACE_SECONDS = 10.0


def main() -> int:
    """Run the parts that were asked for, or one of them in this process."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="toy sizes; a CPU will do")
    parser.add_argument(
        "--parts", type=_names, default=(), help=f"some of {','.join(PARTS)}; all as it comes"
    )
    parser.add_argument("--cases", type=_names, default=(), help="only cases whose names hold one of these")
    parser.add_argument("--out", type=Path, default=Path(".gpu"), help="folder of lines, log and table")
    parser.add_argument("--minutes", type=float, default=25.0, help="for all parts together")
    parser.add_argument("--scratch", type=Path, help="for models; kept, where it is named")
    parser.add_argument("--table", action="store_true", help="only write the table of what is there")
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = list(options.parts or PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if options.run:
        rest = (options.rehearse, options.scratch, options.seconds, options.cases)
        asked = Asked(parts[0], out / LINES, options.run, *rest)
        return _in_this_process(asked)
    if not options.table:
        scratch = options.scratch or Path(tempfile.mkdtemp(prefix="trace-gpu-"))
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            _all(parts, out, scratch, options)
        finally:
            if options.scratch is None:
                shutil.rmtree(scratch, ignore_errors=True)
    lines = read_lines(out)
    (out / "gpu.md").write_text(page(lines, list(PARTS)) + "\n", encoding="utf-8")
    print(f"{summary(lines, parts)}\n{out / 'gpu.md'}")
    latest = {line["part"]: line["status"] for line in lines if line["kind"] == "end"}
    return int(any(latest.get(part) in ("FAILED", "out of time") for part in parts))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _all(parts: list[str], out: Path, scratch: Path, options: argparse.Namespace) -> None:
    run = str(time.time_ns())
    whole = Asked("all", out / LINES, run, options.rehearse, scratch, options.minutes * 60)
    whole.write({"kind": "machine", "facts": machine(options.rehearse)})
    for part in parts:
        # A rehearsal waits for slow processors, and measures none.
        seconds = min(PARTS[part] * (20 if options.rehearse else 1), whole.left)
        asked = Asked(part, out / LINES, run, options.rehearse, scratch, seconds, options.cases)
        if seconds < 10:
            asked.write({"kind": "end", "status": "skipped", "seconds": 0, "reason": "no time was left"})
            continue
        status, reason = _in_another(asked, out / "gpu.log")
        end = {"kind": "end", "status": status, "seconds": seconds - asked.left, "reason": reason}
        asked.write(end)
        print(f"{part}: {status} after {end['seconds']:.0f} s{f' ({reason})' if reason else ''}", flush=True)
        # After every part: whoever is cut off has the table so far.
        (out / "gpu.md").write_text(page(read_lines(out), list(PARTS)) + "\n", encoding="utf-8")


def _in_another(asked: Asked, log: Path) -> tuple[str, str]:
    """Run a part in a process of its own; return how it ended, and why."""
    command = [sys.executable, "-m", "tests.gpu", "--parts", asked.part, "--run", asked.run]
    command += ["--out", str(asked.file.parent), "--scratch", str(asked.scratch)]
    command += ["--seconds", str(asked.seconds), "--cases", ",".join(asked.cases)]
    command += ["--rehearse"] if asked.rehearse else []
    variables = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    variables |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
    if asked.rehearse:
        variables |= {"OMP_NUM_THREADS": "1"}
    start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        late = False
        try:
            process.wait(asked.seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _end(process)
    with log.open("rb") as file:
        file.seek(start)
        said = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    if late:
        return "out of time", f"ended after {asked.seconds:.0f} s; what it had found is below"
    if process.returncode == 77:
        return "skipped", said[-1].removeprefix("skipped: ") if said else "no reason given"
    if process.returncode:
        return "FAILED", f"{said[-1] if said else 'said nothing'} (exit code {process.returncode})"
    failed = [line["what"] for line in read_lines(asked.file.parent) if _is_failure(line, asked)]
    return ("FAILED", f"{', '.join(failed)}: see the notes") if failed else ("ok", "")


def _is_failure(line: dict[str, Any], asked: Asked) -> bool:
    return line["kind"] == "failed" and line["part"] == asked.part and line["run"] == asked.run


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a part with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.2)
    process.wait()


def _in_this_process(asked: Asked) -> int:
    """Run one part here; the exit code says how it ended."""
    import faulthandler

    faulthandler.dump_traceback_later(max(5.0, asked.seconds - 5.0))  # where it hangs
    try:
        importlib.import_module(f"tests.gpu.parts.{asked.part}").run(asked)
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    except Exception as error:
        import traceback

        traceback.print_exc()
        print(last_line(error))
        return 1
    finally:
        faulthandler.cancel_dump_traceback_later()
    return 0


def machine(rehearse: bool) -> dict[str, Any]:
    """Return what the figures were measured on."""
    import torch

    facts: dict[str, Any] = {}
    if rehearse:
        facts["rehearsal"] = "toy sizes: no figure here says anything about a GPU"
    if torch.cuda.is_available():
        own = torch.cuda.get_device_properties(0)
        facts["device"] = f"{torch.cuda.device_count()} x {own.name}, {own.total_memory / 2**30:.0f} GiB"
        facts["driver"] = _driver()
        facts["CUDA, NCCL"] = f"{torch.version.cuda}, {'.'.join(map(str, torch.cuda.nccl.version()))}"
    else:
        facts["device"] = f"no GPU: {platform.processor() or platform.machine()}"
    facts["host"] = f"{os.cpu_count()} cores, Linux {platform.release()}"
    facts["Python"] = platform.python_version()
    for name in PACKAGES:
        try:
            facts[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    facts["date"] = time.strftime("%Y-%m-%d")
    return facts


def _driver() -> str:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return (
            subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.split("\n")[0].strip()
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
