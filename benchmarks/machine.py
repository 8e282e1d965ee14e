"""What figures were measured on."""

import os
import platform
from pathlib import Path


def described() -> str:
    """`Intel(R) Xeon(R) Processor, 2 CPUs, Python 3.11.2`."""
    lines = _cpu_lines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    return f"{model}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
