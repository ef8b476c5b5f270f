"""Memory of this process, as Linux counts it."""

from pathlib import Path


def peak_memory() -> float:
    """High-water mark of the resident memory, in MiB."""
    return _status("VmHWM")


def resident_memory() -> float:
    """Resident memory now, in MiB."""
    return _status("VmRSS")


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024
