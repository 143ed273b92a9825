"""The flags of the command line, in one table: each is an option of the functions that have it."""

from __future__ import annotations

import argparse
import inspect
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, get_args

from fastpack import _types
from fastpack.cli.values import (
    auto_yes_no,
    comma_list,
    count_or_text,
    function_at,
    json_list,
    json_list_or_file,
    json_object,
    moment,
    pairs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["FLAGS", "Flag", "Function", "add_flags"]

Function: TypeAlias = "Callable[..., object]"  # type: ignore[explicit-any]  # its options are what is looked at


class Flag(NamedTuple):
    """A flag, or an argument without one.

    Attributes:
        spelling: What is typed, such as `-s --strategy`; a bare word for an argument that takes no flag.
        help: What it is for. What it may be, and its default, are appended.
        named: The option, where it is not called as the flag is.
        words: The `Literal` of what it may be.
        metavar: What stands for its value in the help.
        type: What makes a value of the text.
        nargs: `+` where it takes several.
        switch: Whether it is on or off, and has no value.
        required: Whether the command needs it though the function has a default.
    """

    spelling: str
    help: str
    named: str | None = None
    words: object = None
    metavar: str | None = None
    type: Callable[[str], object] | None = None
    nargs: str | None = None
    switch: bool = False
    required: bool = False

    @property
    def names(self) -> list[str]:
        """Its spellings, the long one last."""
        return self.spelling.split()

    @property
    def option(self) -> str:
        """The name of the option that it sets."""
        return self.named or self.names[-1].removeprefix("--").replace("-", "_")

    def add_to(self, group: argparse._ActionsContainer, parameter: inspect.Parameter) -> None:
        """Adds it to a parser; one that is not given leaves its option to the function's own default."""
        help, default = self.help, parameter.default  # noqa: A001
        if self.words:
            help += f": {', '.join(get_args(self.words))}"  # noqa: A001
        if default not in {inspect.Parameter.empty, None} and not isinstance(default, bool):
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
            help += f" (default: {shown})"  # noqa: A001
        rest: dict[str, object] = {"help": help, "metavar": self.metavar, "default": argparse.SUPPRESS}
        if self.switch:
            rest = {"help": help, "default": argparse.SUPPRESS, "action": argparse.BooleanOptionalAction}
        rest |= {name: value for name in ("type", "nargs") if (value := getattr(self, name)) is not None}
        if self.spelling.startswith("-"):
            rest |= {
                "dest": self.option,
                "required": self.required or default is inspect.Parameter.empty,
            }
        group.add_argument(*self.names, **rest)  # type: ignore[arg-type]

    def spellings(self) -> dict[str, str]:
        """How messages speak of the option, and how they would speak of the flag."""
        flag = self.names[-1]
        if not flag.startswith("-"):
            return {}
        spoken = {f"invalid option `{self.option}`": f"invalid option `{flag}`"}
        if self.switch:
            off = flag.replace("--", "--no-", 1)
            return spoken | {f"{self.option}=True": flag, f"{self.option}=False": off}
        return spoken | {f'{self.option}="': f'{flag} "'}


def add_flags(command: argparse.ArgumentParser, own: Iterable[Flag], function: Function) -> None:
    """Gives a command a flag for each option of its function: flags of its own first, then those of the table."""
    missing = dict(inspect.signature(function).parameters)
    for title, flags in [(None, own), *FLAGS.items()]:
        known = [flag for flag in flags if flag.option in missing]
        group = command.add_argument_group(title) if title and known else command
        for flag in known:
            flag.add_to(group, missing.pop(flag.option))


FLAGS: Final[dict[str | None, tuple[Flag, ...]]] = {
    None: (
        Flag("-o --output", "the folder to write", metavar="DIR", required=True),
        Flag("-t --tokenizer", "a folder, a tokenizer.json, or a name on the hub; ids need none"),
        Flag("-m --max-length", "tokens that a row holds at most", type=int, metavar="TOKENS"),
    ),
    "files that are written": (
        Flag("-f --format", "file format", words=_types.Format),
        Flag("--compression", "how columns are compressed", words=_types.Compression),
        Flag("--shard-size", "size of an output file, such as 512MB or 2GiB", metavar="SIZE"),
        Flag("--per-file", "write an output for each input, named after it", switch=True),
        Flag("--hf-layout", "arrange the folder as datasets.load_from_disk maps it", switch=True),
        Flag(
            "--validation",
            "documents to set aside for validation: a number, or a share such as 0.01 or 1%%",
            type=count_or_text,
            metavar="DOCUMENTS",
        ),
        Flag("--keep-tokens", "leave the tokens in the folder, to be packed again", switch=True),
        Flag("--overwrite", "replace what fastpack wrote into the folder before", switch=True),
        Flag("--wait", "wait where another process packs into the folder, rather than fail", switch=True),
    ),
    "rows": (
        Flag("-s --strategy", "how documents are put together", words=_types.Strategy),
        Flag("--overlong", "documents longer than a row", words=_types.Overlong),
        Flag("--keep", "end of a truncated document that is kept", words=_types.Keep),
        Flag("--tail", "last row of concat if it is not full", words=_types.Tail),
        Flag("--max-documents-per-pack", "documents that a row holds at most", type=int, metavar="N"),
        Flag(
            "--align-documents-to",
            "what the length of each document in a row is a multiple of, as context parallel training wants it",
            type=int,
            metavar="N",
        ),
        Flag("--order", "order of the rows, if not the strategy's own", words=_types.Order),
        Flag("--world-size", "ranks that share the rows of --order balanced", type=int, metavar="RANKS"),
        Flag("--on-remainder", "rows that they cannot share equally", words=_types.OnRemainder),
        Flag("--seed", "decides what is left to chance", type=int, metavar="N"),
        Flag(
            "--pad-to",
            "what rows are filled up to: max_length, or a multiple that divides it",
            type=count_or_text,
            metavar="LENGTH",
        ),
        Flag("--padding-side", "end of a row at which it is filled up", words=_types.Side),
        Flag("--pad-token-id", "id to fill up with, if not the tokenizer's own", type=int, metavar="ID"),
        Flag("--columns", "columns of the rows, separated by commas", type=comma_list, metavar="NAMES"),
    ),
    "tokens and labels": (
        Flag("--train-on", "tokens that carry a label", words=_types.TrainOn),
        Flag("--train-on-eos", "ends of trained turns that carry one", words=_types.TrainOnEos),
        Flag("--shift-labels", "put each label one place before its token", switch=True),
        Flag(
            "--eos",
            "whether documents end with the end-of-text token: auto, yes, no",
            type=auto_yes_no,
        ),
        Flag(
            "--bos",
            "whether documents begin with the token that begins a text: auto, yes",
            type=auto_yes_no,
        ),
        Flag(
            "--chat-template", "a Jinja text, a file, or a name that the tokenizer knows", metavar="TEMPLATE"
        ),
        Flag(
            "--chat-template-kwargs",
            "variables for the chat template",
            type=json_object,
            metavar="JSON",
        ),
        Flag("--template-engine", "what renders templates that are refused", words=_types.TemplateEngine),
    ),
    "records": (
        Flag("--shape", "what the records are, if not to be found out", words=_types.Shape),
        Flag(
            "--fields",
            "fields that hold parts of a record, such as question=query,answer=solution",
            type=pairs,
            metavar="PART=FIELD,...",
        ),
        Flag(
            "--prompt",
            "how requests become texts: a text with {instruction}, a file, or one of",
            words=_types.NamedPrompt,
        ),
        Flag(
            "--examples",
            "list of [request, answer] before each request",
            type=json_list,
            metavar="JSON",
        ),
        Flag("--separator", "what stands between the documents of a text file", metavar="TEXT"),
        Flag(
            "--sources",
            "in place of files: a list of objects with path, shape, fields, prompt, limit, repeat; or its file",
            type=json_list_or_file,
            metavar="JSON",
        ),
        Flag("--recursive", "read folders inside folders too", switch=True),
        Flag(
            "--filter",
            "Python function of a pyarrow.RecordBatch that says which records stay: filters.py:good, or module:good",
            type=function_at,
            metavar="PLACE:NAME",
        ),
        Flag(
            "--filter-fingerprint",
            "name for that function, to be changed with it, where its code cannot be followed",
            metavar="NAME",
        ),
        Flag(
            "--map",
            "Python function of a pyarrow.RecordBatch that makes others of the records",
            type=function_at,
            metavar="PLACE:NAME",
        ),
        Flag("--map-fingerprint", "name for that function, likewise", metavar="NAME"),
        Flag("--on-bad-record", "records that cannot be read", words=_types.OnBadRecord),
        Flag("--max-lost", "how much may be lost before the run fails, such as 0.1%%", metavar="SHARE"),
    ),
    "how the work is done": (
        Flag(
            "--threads", "worker threads; as many as the machine allows if not given", type=int, metavar="N"
        ),
        Flag("--memory", "memory for documents, such as 2GB; a quarter of all if not given", metavar="SIZE"),
        Flag(
            "--verify",
            "documents that the Hugging Face crate encodes too, to compare",
            type=int,
            metavar="N",
        ),
        Flag(
            "--now",
            "the time that templates see, such as 2026-01-31T12:00",
            type=moment,
            metavar="TIME",
        ),
        Flag("--progress", "draw a bar; if not given, where stderr is a terminal", switch=True),
        Flag("--revision", "branch, tag or commit of a hub name"),
        Flag("--token", "access token for a hub name; better given as $HF_TOKEN"),
    ),
}
"""By the titles under which the help of a command lists them; those of the first have none."""
