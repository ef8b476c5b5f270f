"""Torch in a forked process."""

import os

import torch

_pid = os.getpid()


def use_one_thread_after_fork() -> None:
    """Make torch compute in one thread if this process was forked after torch was imported.

    A forked process inherits torch's thread pool without its threads, and the first parallel operation would wait for
    them for ever. Worker processes get their speed from their number.
    """
    global _pid
    if os.getpid() != _pid:
        torch.set_num_threads(1)
        _pid = os.getpid()
