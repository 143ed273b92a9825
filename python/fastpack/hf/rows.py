"""`PackedInfo`: the information of a data set that `load` returns, by which a trainer of TRL is refused rows it would mix.

`datasets` copies the information of a data set to every data set that it derives from it, so shuffled, mapped or selected rows are
guarded as loaded ones are, and nothing of `datasets` is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasets import DatasetInfo

from fastpack.hf.trainers import SOURCE, folders_named, refuse_unfit_trainer

if TYPE_CHECKING:
    from datasets import Features

__all__ = ["PackedInfo"]


class PackedInfo(DatasetInfo):  # type: ignore[misc]  # datasets is no dependency of the type check
    """Information of packed rows, which a trainer of TRL that would mix their documents cannot begin to read."""

    @property
    def features(self) -> Features | None:
        """The types of the columns, which `datasets` asks for before it reads a row.

        Raises:
            BatchError: A trainer whose settings do not fit begins to read the rows.
        """
        found: Features | None = self.__dict__.get("features")
        if found is not None and "input_ids" in found and self.description.startswith(SOURCE):
            refuse_unfit_trainer(self.description)
        return found

    @features.setter
    def features(self, features: Features | None) -> None:
        self.__dict__["features"] = features
        if features is not None and "input_ids" not in features:
            self.description = (
                ""  # texts made of rows are packed no more, even where a trainer tokenizes them again
            )

    def __eq__(self, other: object) -> bool:
        """True if rows have the same columns and were packed with the same options.

        `concatenate_datasets` keeps the information of rows where it is equal, and makes one of its own where it is not.
        """
        if not isinstance(other, PackedInfo):
            return NotImplemented
        mine, theirs = ({**info.__dict__, "description": None} for info in (self, other))
        return mine == theirs and (
            self.description == other.description or _options_of(self) == _options_of(other) != []
        )

    __hash__ = None  # type: ignore[assignment]  # as of other information, which can be changed


def _options_of(info: PackedInfo) -> list[object]:
    """The options of the folders that rows were read from."""
    return [folder.options for folder in folders_named(info.description)]
