"""The exceptions: all are `FastpackError`, and each is the builtin that fits as well."""

from __future__ import annotations

from fastpack._fastpack import one_line, without_secrets
from fastpack.arguments.message import Message

__all__ = [
    "AccessError",
    "BatchError",
    "ConnectionLostError",
    "FastpackError",
    "InputNotFoundError",
    "InternalError",
    "LedgerError",
    "LossError",
    "OptionError",
    "OptionTypeError",
    "OutputError",
    "RecordError",
    "StorageError",
    "TemplateError",
    "ThreadError",
    "TokenizerError",
    "VerificationError",
]


class FastpackError(Exception):
    """Anything that fastpack raises.

    What an exception quotes of the input has no secrets in it: the users, passwords and queries of URLs are taken out of all
    its arguments, so that neither `repr`, nor `filename`, nor a pickle of it has them.
    """

    def __init__(self, *args: object) -> None:
        """Keeps the arguments, without secrets."""
        super().__init__(*map(_public, args))

    def __str__(self) -> str:
        """The message on one line of bounded length, whatever it quotes of the input."""
        return one_line(super().__str__())


def _public(argument: object) -> object:
    """An argument of an exception without secrets."""
    if isinstance(argument, Message):
        return argument.mapped(without_secrets)
    return without_secrets(argument) if isinstance(argument, str) else argument


class _DescribedError(FastpackError):
    """An error whose first argument is its message and whose others are its attributes."""

    def __str__(self) -> str:
        return one_line(str(self.args[0]))


class RecordError(_DescribedError, ValueError):
    """A record is invalid.

    Attributes:
        path: The file.
        line: The line in it, from 1.
        reason: The kind of fault, such as `invalid_json`: the name under which it is counted when bad
            records are skipped.
    """

    def __init__(self, message: str, path: str, line: int, reason: str) -> None:
        """Keeps the place beside the message."""
        super().__init__(message, path, line, reason)
        _, self.path, self.line, self.reason = self.args


class OptionError(FastpackError, ValueError):
    """An option has a value that it cannot have; raised before any work.

    Attributes:
        reason: The fault, and what would be right.
        option: The option's name.
    """

    def __init__(self, reason: str, option: str) -> None:
        """Keeps both apart, so that each interface can name the option in its own way."""
        super().__init__(reason, option)
        self.reason, self.option = self.args

    def __str__(self) -> str:
        """The message, with the option as Python spells it."""
        return one_line(f"invalid option `{self.option}`: {self.reason}")


class OptionTypeError(OptionError, TypeError):
    """An option has a value of a type that it cannot have."""


class TemplateError(_DescribedError, ValueError):
    """A chat template cannot be used.

    Attributes:
        template: The template's name.
        line: The line in it, from 1.
        reason: The fault, and the remedy.
    """

    def __init__(self, message: str, template: str, line: int, reason: str) -> None:
        """Keeps the place beside the message."""
        super().__init__(message, template, line, reason)
        _, self.template, self.line, self.reason = self.args


class TokenizerError(FastpackError, ValueError):
    """The tokenizer cannot be used."""


class InputNotFoundError(FastpackError, FileNotFoundError):
    """A file, folder or tokenizer is not there; `filename` names it."""


class AccessError(FastpackError, PermissionError):
    """A file or folder must not be read or written; `filename` names it."""


class StorageError(FastpackError, OSError):
    """Reading or writing failed; `errno` and `filename` say how and where."""


class ConnectionLostError(FastpackError, ConnectionError):
    """The process that serves a stream is not there, or has gone."""


class OutputError(FastpackError, FileExistsError):
    """The output folder holds something that the run would spoil; `filename` names it."""


class LedgerError(FastpackError, RuntimeError):
    """The counts of input and output do not balance: a bug in fastpack, found before anything was kept."""


class LossError(_DescribedError, RuntimeError):
    """More documents or tokens were lost than `max_lost` allows; the message says why and where.

    Attributes:
        documents: The number of lost documents, unreadable records included.
        tokens: The number of lost tokens, those of truncated documents included.
    """

    def __init__(self, message: str, documents: int, tokens: int) -> None:
        """Keeps the numbers beside the message."""
        super().__init__(message, documents, tokens)
        self.documents = documents
        self.tokens = tokens


class BatchError(FastpackError, ValueError):
    """A batch or a model would train on other tokens or labels than those of the packed rows."""


class VerificationError(FastpackError, RuntimeError):
    """The compiled engine and the reference engine make different ids: a bug in fastpack."""


class ThreadError(FastpackError, RuntimeError):
    """The system starts no thread, which every call needs; the message names the limits to raise."""


class InternalError(FastpackError, RuntimeError):
    """An internal error: a bug in fastpack."""
