"""`Closing`: an object that a `with` statement closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Closing"]


class Closing(ABC):
    """An object with threads or connections, which a `with` statement closes."""

    @abstractmethod
    def close(self) -> None:
        """Ends the work of the object."""

    def __enter__(self) -> Self:
        """Returns the object itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the object."""
        self.close()
