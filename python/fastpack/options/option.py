"""`Option`: what is said once of an option of the public functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.options.value import as_value, paths_of, values_without_tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.options.value import Kind

__all__ = [
    "ANSWERED_OBJECTIVES",
    "EVERY_CALL",
    "FILE_CALLS",
    "FOLDER_CALLS",
    "KEEPING_CALLS",
    "LABELLED_OBJECTIVES",
    "MODEL",
    "OBJECTIVE",
    "ORDERING_CALLS",
    "PACKED_CALLS",
    "PACKED_OBJECTIVES",
    "PACKING",
    "PACKING_CALLS",
    "PADDED_OBJECTIVES",
    "PIECE_CALLS",
    "REQUIRED",
    "ROW_CALLS",
    "RUN",
    "RUNNING_CALLS",
    "SHARD_CALLS",
    "SPLITTING_CALLS",
    "TOKENIZING_CALLS",
    "TRAINING_CALLS",
    "CallDifferences",
    "Flag",
    "Option",
]

REQUIRED: Final[object] = object()
"""The default of an option that must be given."""

PACKING: Final[str] = "packing"
RUN: Final[str] = "run"
MODEL: Final[str] = "model"
OBJECTIVE: Final[str] = "objective"
"""A group of options that the native module takes as one: `PackOptions`, `Options`, and so on."""

PACKING_CALLS: Final[frozenset[str]] = frozenset({"pack_files", "pack_dir", "pack_table", "pack_records"})
"""The calls that pack records."""

KEEPING_CALLS: Final[frozenset[str]] = PACKING_CALLS - {"pack_files"}
"""The calls that can leave tokens in a folder."""

TRAINING_CALLS: Final[frozenset[str]] = PACKING_CALLS | {"stream"}
"""The calls that make rows of records."""

TOKENIZING_CALLS: Final[frozenset[str]] = TRAINING_CALLS | {"scan"}
"""The calls that make tokens of records."""

FILE_CALLS: Final[frozenset[str]] = TOKENIZING_CALLS - {"pack_table", "pack_records"}
"""The calls that read files."""

ROW_CALLS: Final[frozenset[str]] = TRAINING_CALLS | {"repack"}
"""The calls that make rows."""

RUNNING_CALLS: Final[frozenset[str]] = TOKENIZING_CALLS | {"repack"}
"""The calls that run for a while."""

ORDERING_CALLS: Final[frozenset[str]] = PACKING_CALLS | {"plan", "repack"}
"""The calls that choose the order of rows."""

PIECE_CALLS: Final[frozenset[str]] = ORDERING_CALLS | {"stream"}
"""The calls that choose the pieces of a row."""

EVERY_CALL: Final[frozenset[str]] = PIECE_CALLS | {"scan"}
"""The calls that make, plan or count rows."""

SPLITTING_CALLS: Final[frozenset[str]] = PACKING_CALLS | {"repack"}
"""The calls that can set documents aside."""

FOLDER_CALLS: Final[frozenset[str]] = KEEPING_CALLS | {"repack"}
"""The calls that can write a folder."""

SHARD_CALLS: Final[frozenset[str]] = frozenset({"read", "inspect", "export", "PackedDataset"})
"""The calls that read shards of a packed folder, in remote storage through a cache."""

PACKED_CALLS: Final[frozenset[str]] = SHARD_CALLS | {"verify", "Report.of", "Report.to_html"}
"""The calls that read a packed folder."""


PACKED_OBJECTIVES: Final[tuple[str, ...]] = ("causal", "mlm", "span", "fim", "custom")
"""The objectives whose rows can hold several documents."""

LABELLED_OBJECTIVES: Final[tuple[str, ...]] = ("classification", "multi_label")
"""The objectives whose records have labels of texts."""

PADDED_OBJECTIVES: Final[tuple[str, ...]] = (*PACKED_OBJECTIVES, "generation", *LABELLED_OBJECTIVES)
"""The objectives whose rows can be padded."""

ANSWERED_OBJECTIVES: Final[tuple[str, ...]] = (*PACKED_OBJECTIVES, "preference")
"""The objectives whose documents have an end."""


class Flag(NamedTuple):
    """A flag of the command line, or an argument without one.

    Attributes:
        spelling: The spellings, such as `-s --strategy`; a bare word for a positional argument.
        help: The help text. The valid values and the default are appended.
        words: The name in `fastpack.types` of the `Literal` of the valid words.
        metavar: The placeholder of the value in the help.
        type: The parser of the value: a name in `fastpack.cli.values.VALUES`.
        parsed: The type of Python that a text is parsed as, where no parser is named.
        switch: True if it is a switch with an on and an off spelling.
        unset: The text about the default in the help, if the option has no default of its own.
        named: The name of the option, if it differs from the flag's.
        nargs: `+` or `*` if the flag takes several values.
        required: True if a command needs it though the function has a default.
        on: True if it takes no value and only turns something on.
        of_command: True if it is a flag of the command, not an option of the function.
        default: Its default, if it is an option of the command.
        common: True if the help of a command lists it without a topic.
        holds: True if it is no flag itself, but begins those of the options in its value.
        calls: The functions whose commands have it; empty if all that take the option do.
        secret: True if no message quotes its value.
        example: A value of it, where it is JSON with names of another program.
    """

    spelling: str
    help: str
    words: str | None = None
    metavar: str | None = None
    type: str | None = None
    switch: bool = False
    unset: str = ""
    named: str | None = None
    nargs: str | None = None
    required: bool = False
    on: bool = False
    of_command: bool = False
    default: object = None
    parsed: object = None
    common: bool = False
    holds: bool = False
    calls: frozenset[str] = frozenset()
    secret: bool = False
    example: str = ""

    @property
    def names(self) -> list[str]:
        """Its spellings, the long one last."""
        return self.spelling.split()

    @property
    def option(self) -> str:
        """The name of the option that it sets."""
        return self.named or self.names[-1].removeprefix("--").replace("-", "_")

    @property
    def holder(self) -> str:
        """The top-level option that it belongs to: `padding` for `padding.side`."""
        return self.option.partition(".")[0]

    def spelled(self, value: object) -> str:
        """The flag with a value, as it is typed."""
        name = self.names[-1]
        if self.switch or self.on:
            return name if value else name.replace("--", "--no-", 1)
        if isinstance(value, dict):
            return f"{name} {','.join(f'{key}={entry}' for key, entry in value.items())}"
        return f"{name} {value}"


class CallDifferences(NamedTuple):
    """The differences of an option in one call.

    Attributes:
        doc: The description in that call; the option's own if empty.
        type: Its type there; as everywhere if empty.
        default: Its default there; as everywhere if `...`.
    """

    doc: str = ""
    type: str = ""
    default: object = ...


class Option(NamedTuple):
    """An option of the public functions: its signature, help, flag and conversion come from here.

    Attributes:
        name: The keyword.
        type: Its type, as a signature has it.
        default: Its default, or `REQUIRED`.
        calls: The functions that take it.
        doc: The description, for docstrings and help.
        group: The name of the options with which the native module takes it; empty where a function passes it by itself.
        differs: How it differs in some of the calls.
        flag: How the command line spells it, if it can.
        objectives: The training objectives that heed it; empty if all do.
        kinds: The values with options of their own that it takes, by the words that stand for them.
        without_tokenizer: The values beside its default that it may have without a tokenizer; all if not given.
        path: `always` if files of options hold a path there, `exists` if they do where there is such a file; else empty.
        once: True if it belongs to one call, so that no manifest holds it, and no repeated job inherits it.
    """

    name: str
    type: str
    default: object
    calls: frozenset[str]
    doc: str
    group: str = ""
    differs: Mapping[str, CallDifferences] = {}
    flag: Flag | None = None
    objectives: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = {}
    without_tokenizer: tuple[object, ...] | None = None
    path: str = ""
    once: bool = False

    def value_in(self, arguments: Mapping[str, object]) -> object:
        """The value in the arguments of a call, or the default; a word that stands for a value is that value."""
        value = arguments.get(self.name, self.default)
        return as_value(self.name, value, self.kinds) if self.owns_kinds else value

    @property
    def owns_kinds(self) -> bool:
        """True if its values are kinds of this option, not those of another one."""
        return bool(self._own_kinds)

    @property
    def values_without_tokenizer(self) -> dict[str, tuple[object, ...]]:
        """The values that it may have without a tokenizer, under an empty name, and those of each field that needs one."""
        own = {} if self.without_tokenizer is None else {"": (self.default, *self.without_tokenizer)}
        return own | {
            name: taken for kind in self._own_kinds for name, taken in values_without_tokenizer(kind).items()
        }

    @property
    def has_path(self) -> str:
        """Its `path`, or that of the field for which a plain value stands."""
        plain = (paths_of(kind).get(kind.plain, "") for kind in self._own_kinds)
        return self.path or next(plain, "")

    @property
    def _own_kinds(self) -> list[Kind]:
        """The kinds of values that are of this option, not of another one."""
        return [kind for kind in self.kinds.values() if kind.option == self.name]

    def is_default(self, value: object) -> bool:
        """True if a value is the default; a value of another type, such as an array, is not even compared."""
        return value is self.default or (type(value) is type(self.default) and value == self.default)

    def in_call(self, call: str) -> Option:
        """The option as this call has it."""
        differs = self.differs.get(call)
        if differs is None:
            return self
        return self._replace(
            type=differs.type or self.type,
            default=self.default if differs.default is ... else differs.default,
            doc=differs.doc or self.doc,
        )
