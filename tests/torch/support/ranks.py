"""Running the scripts of this folder as one process or as several ranks, and ending one of these ranks."""

from __future__ import annotations

import os
import subprocess
import sys

import torch.distributed as dist
from places import SUPPORT


def run_ranks(script, *arguments, ranks, timeout=200, **environment):
    """Runs a script of this folder to its end, on one thread a rank; without a launcher if there is one."""
    launcher = (
        ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    )
    return subprocess.run(
        [sys.executable, *launcher, str(SUPPORT / script), *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def end_rank():
    """Ends a rank with success, behind all others, without the end of its interpreter.

    A thread of gloo may take the GIL to free the tensors of the last collective. If the interpreter has ended by then,
    PyTorch 2.13 aborts ("terminate called without an active exception").
    """
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
