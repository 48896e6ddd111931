"""The device itself: its name, and the two ceilings that every other figure lies under."""

from __future__ import annotations

import time

from tests.gpu.results import Asked, Skip


def run(asked: Asked) -> None:
    """Measure the rate of a bf16 matrix product and of a copy."""
    import torch

    if asked.device == "cpu" and not asked.rehearse:
        raise Skip("torch sees no GPU")
    if asked.device == "cuda":
        own = torch.cuda.get_device_properties(0)
        asked.row("device", own.name, note=f"compute capability {own.major}.{own.minor}")
        asked.row("memory", own.total_memory / 2**30, "GiB")
        asked.row("multiprocessors", own.multi_processor_count)
    size = 8192 if not asked.rehearse else 256
    # Random, since zeros let the chip clock higher; several sets, so that no cache holds them.
    pairs = [
        (
            torch.randn(size, size, device=asked.device, dtype=torch.bfloat16),
            torch.randn(size, size, device=asked.device, dtype=torch.bfloat16),
        )
        for _ in range(3)
    ]
    seconds = _median(asked, [lambda a=a, b=b: a @ b for a, b in pairs])
    asked.row(f"bf16 product of {size} x {size}", 2 * size**3 / seconds / 1e12, "TFLOP/s")
    wide = [(a.float(), b.float()) for a, b in pairs[:2]]
    seconds = _median(asked, [lambda a=a, b=b: a @ b for a, b in wide])
    precision = torch.get_float32_matmul_precision()
    asked.row(
        f"fp32 product of {size} x {size}", 2 * size**3 / seconds / 1e12, "TFLOP/s", f"precision {precision}"
    )
    elements = 2**31 if not asked.rehearse else 2**20
    source = torch.randint(0, 100, (elements,), device=asked.device, dtype=torch.int8)
    target = torch.empty_like(source)
    seconds = _median(asked, [lambda: target.copy_(source)])
    asked.row("copy within the device", 2 * elements / seconds / 1e12, "TB/s", "bytes read and written")
    host = torch.empty(elements // 4, dtype=torch.int8, pin_memory=asked.device == "cuda")
    seconds = _median(asked, [lambda: host.copy_(source[: elements // 4])])
    asked.row("copy to pinned memory of the host", elements / 4 / seconds / 1e9, "GB/s")
    if asked.device == "cuda":
        small = torch.zeros(8, device="cuda")
        began = time.perf_counter()
        for _ in range(2000):
            small.add_(1)
        torch.cuda.synchronize()
        asked.row("one small operation from Python", (time.perf_counter() - began) / 2000 * 1e6, "us")


def _median(asked: Asked, works: list, repeat: int = 15) -> float:  # type: ignore[type-arg]
    """Return the median seconds of a piece of work, after three that are not counted."""
    import torch

    times = []
    for number in range(repeat + 3):
        work = works[number % len(works)]
        if asked.device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1000)
        else:
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
    return sorted(times[3:])[repeat // 2]
