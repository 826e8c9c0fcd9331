"""The machine: what it is, and how fast it reads memory. As a program it prints the times of plain reads as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

from harness.protocol import DIM
from harness.stats import percentile

FLAGS = ("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni", "amx_int8",
         "asimd", "asimddp", "sve")
LARGE = 256_000_000  # bytes: beyond every cache


def facts(folder: Path) -> dict[str, object]:
    """Describe processor, memory, kernel and the file system of a folder."""
    cpu = _cpu()
    return {
        "cpu": cpu.get("model name", platform.processor() or platform.machine()),
        "family": " ".join(f"{name} {cpu[name]}" for name in ("cpu family", "model", "stepping") if name in cpu),
        "flags": [flag for flag in FLAGS if flag in cpu.get("flags", cpu.get("Features", "")).split()],
        "cores": len(os.sched_getaffinity(0)), "caches": _caches(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}", "file_system": _file_system(folder),
        "python": platform.python_version(), "libc": " ".join(platform.libc_ver()),
    }


def _cpu() -> dict[str, str]:
    read: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        read.setdefault(name.strip(), value.strip())
    return read


def _caches() -> list[str]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size"))
        found.append(f"L{level} {kind.lower()} {size}")
    return found


def _file_system(folder: Path) -> str:
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) > len(best[0]):
            best = (point, kind)
    return best[1]


def read_seconds(size: int, runs: int) -> float:
    """Give the median time of the largest of `size` bytes of float32, one thread: nothing is computed that takes longer."""
    numbers = np.ones(size // 4, np.float32)
    numbers.max()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        numbers.max()
        seconds.append(time.perf_counter() - start)
    return percentile(seconds, 50)


def reads(rows: int) -> dict[str, float]:
    """Give the time of reading `rows` vectors as float32 and as int8 in ms, and the rate of a large read in GB/s."""
    runs = max(15, min(200, 20_000_000 // rows))
    return {"float_ms": read_seconds(rows * DIM * 4, runs) * 1e3, "int8_ms": read_seconds(rows * DIM, runs) * 1e3,
            "read_gb_s": LARGE / read_seconds(LARGE, 15) / 1e9}


if __name__ == "__main__":
    print(json.dumps(reads(int(sys.argv[1]))))
