"""Plans of a training step by verl's own functions, from its wheel: it is installed without what else verl needs."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from types import ModuleType

WHEEL = Path(__file__).resolve().parents[3] / ".build" / "verl"


def functions() -> ModuleType | None:
    """The module that balances lengths, if the wheel is installed. What it imports for other functions is left empty."""
    if not (WHEEL / "verl").is_dir():
        return None
    sys.path.append(str(WHEEL))
    empty = {
        "verl": {"__path__": [str(WHEEL / "verl")]},
        "verl.utils": {"__path__": [str(WHEEL / "verl" / "utils")], "tensordict_utils": None},
        "verl.protocol": {"DataProto": None},
        "verl.utils.device": {"get_device_name": lambda: "cpu"},
        "verl.utils.tensordict_utils": {"index_select_tensor_dict": lambda _, members: members},
    }
    for name, members in empty.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module
    vars(sys.modules["verl.utils"])["tensordict_utils"] = sys.modules["verl.utils.tensordict_utils"]
    import verl.utils.seqlen_balancing as balancing  # pyright: ignore[reportMissingImports]

    return balancing


class _Lengths:
    """A stand-in for nested token ids: only their offsets are used."""

    is_nested = True

    def __init__(self, lengths: npt.NDArray[np.int64]) -> None:
        self._offsets = torch.from_numpy(np.append(0, np.cumsum(lengths)))

    def offsets(self) -> torch.Tensor:
        return self._offsets


def plan(
    balancing: ModuleType, lengths: npt.NDArray[np.int64], ranks: int, budget: int
) -> list[list[list[int]]]:
    """Sequences to ranks by cost, as many for each; then those of each rank to micro-batches, as many for each."""
    costs = balancing.calculate_workload(torch.from_numpy(lengths)).tolist()
    of_ranks = [
        np.array(members)
        for members in balancing.get_seqlen_balanced_partitions(costs, ranks, equal_size=True)
    ]
    # Ranks agree on the greatest number by a collective; here they are asked again with it.
    fewest = 1
    while True:
        rows = []
        for members in of_ranks:
            batch = {"input_ids": _Lengths(lengths[members])}
            _, parts = balancing.rearrange_micro_batches(batch, budget, min_num_micro_batch=fewest)
            rows.append([members[part].tolist() for part in parts])
        most = max(map(len, rows))
        if all(len(of_rank) == most for of_rank in rows):
            return rows
        fewest = most
