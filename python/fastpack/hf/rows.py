"""`PackedRows`: the data set that `load` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasets import Dataset

from fastpack.hf.trainers import folders_of, refuse_unfit_trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PackedRows"]


class PackedRows(Dataset):  # type: ignore[misc]  # datasets is no dependency of the type check
    """Packed rows, which a trainer of TRL that would mix their documents cannot begin to read."""

    def __iter__(self) -> Iterator[object]:
        """The rows.

        Raises:
            BatchError: A trainer whose settings do not fit begins to read them.
        """
        refuse_unfit_trainer(folders_of(self))
        return super().__iter__()  # type: ignore[no-any-return]  # likewise
