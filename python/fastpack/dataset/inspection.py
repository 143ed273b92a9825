"""`inspect`: a packed row, its documents, their boundaries, and which tokens are trained."""

from __future__ import annotations

import errno
import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastpack.arguments.checks import check_switch, check_type, folder_of
from fastpack.arguments.plural import counted
from fastpack.arguments.urls import is_url
from fastpack.dataset.folder import ROWS, TRAIN, Folder, check_names, expanded, stored_table_of
from fastpack.dataset.manifest import MANIFEST, report_of
from fastpack.dataset.packed_files import LocalFiles, RemoteAccess, RemoteFiles
from fastpack.dataset.pictures.files import PictureFiles
from fastpack.dataset.pictures.references import PictureReference, references_of
from fastpack.errors import FastpackError, InputNotFoundError, OptionError, OptionTypeError
from fastpack.report.report_facts import ReportFacts, carried_report
from fastpack.storage.remote_options import public
from fastpack.types import IMAGES, NOT_TRAINED, Splits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from fastpack._fastpack import Pretrained
    from fastpack.dataset.folder import Shard
    from fastpack.options.storage import Storage
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import JsonValue, StrPath

__all__ = ["PackedDocument", "PackedRow", "inspect"]


class PackedDocument(NamedTuple):
    """A document in a row, or a piece of one.

    Attributes:
        start: The place of its first token in the row.
        input_ids: Its tokens.
        labels: Their labels, -100 where not trained, or its targets, where rows have targets of their own; empty where
            rows have none.
        source: The file of its record; empty if the rows have no origins.
        line: Its line or record in that file, from 1; 0 if the rows have no origins.
        has_targets: True if `labels` are its targets, which stand apart from its tokens, such as the answer to a prompt.
        label: The label or labels of the document as a whole: a class, a truth for each class, or a judgement; `None`
            where rows have none.
        classes: The names of the classes that `label` tells of; empty where no names are known.
        pictures: Its pictures, in the order of their tokens.
    """

    start: int
    input_ids: list[int]
    labels: list[int]
    source: str
    line: int
    has_targets: bool = False
    label: int | bool | tuple[float, ...] | None = None
    classes: tuple[str, ...] = ()
    pictures: tuple[PictureReference, ...] = ()

    @property
    def tokens(self) -> int:
        """The number of its tokens, with those of its targets where these stand apart."""
        return len(self.input_ids) + (len(self.labels) if self.has_targets else 0)

    @property
    def trained(self) -> int:
        """The number of its tokens that carry a label."""
        return sum(label != NOT_TRAINED for label in self.labels)


class PackedRow:
    """A packed row; `print` shows it, and so does a notebook.

    Attributes:
        where: The file or folder of the row.
        number: Its number in the file or folder, from 0.
        rows: The number of rows in the file or folder.
        documents: The documents in it; of an answered prompt, one for each answer.
        has_prompt: True if its documents are answers to one prompt, each with the tokens of the prompt as its own.
        picture_files: Opens their pictures.
    """

    def __init__(
        self,
        where: str,
        number: int,
        rows: int,
        documents: list[PackedDocument],
        pretrained: Pretrained | None,
        picture_files: PictureFiles,
        *,
        has_prompt: bool = False,
    ) -> None:
        """Takes the row that `inspect` read."""
        self.where = where
        self.number = number
        self.rows = rows
        self.documents = documents
        self.picture_files = picture_files
        self.has_prompt = has_prompt
        self._pretrained = pretrained

    @property
    def tokens(self) -> int:
        """Tokens in the row: those of a prompt once, and those of its answers."""
        again = len(self.documents[0].input_ids) * (len(self.documents) - 1) if self.has_prompt else 0
        return sum(document.tokens for document in self.documents) - again

    def stretches(self, document: PackedDocument, *, ids: bool = False) -> Iterator[tuple[bool, str]]:
        """Splits a document into trained and untrained stretches of text, or of ids where no tokenizer is known.

        Args:
            document: One of `documents`.
            ids: True if ids are shown though a tokenizer is known.
        """
        masks = [label != NOT_TRAINED for label in document.labels]
        pairs = (
            [*((False, token) for token in document.input_ids), *((True, token) for token in document.labels)]
            if document.has_targets
            else list(zip(masks or [False] * len(document.input_ids), document.input_ids, strict=True))
        )
        for trained, stretch in groupby(pairs, key=lambda pair: pair[0]):
            part = [token for _, token in stretch]
            if self._pretrained is None or ids:
                yield trained, " ".join(map(str, part))
            else:
                yield trained, self._pretrained.decode(part)

    def without_text(self) -> PackedRow:
        """Returns the row without its tokenizer, so that it is shown as ids."""
        return PackedRow(
            self.where,
            self.number,
            self.rows,
            self.documents,
            None,
            self.picture_files,
            has_prompt=self.has_prompt,
        )

    @property
    def has_text(self) -> bool:
        """True if a tokenizer is known, so that ids are shown as text."""
        return self._pretrained is not None

    def to_dict(self) -> dict[str, JsonValue]:
        """The row as JSON values."""
        return {
            "packed": self.where,
            "row": self.number,
            "rows": self.rows,
            "tokens": self.tokens,
            "documents": [
                {
                    "start": document.start,
                    "tokens": document.tokens,
                    "trained": document.trained,
                    "source": document.source or None,
                    "line": document.line or None,
                    "input_ids": list(document.input_ids),
                    "labels": list(document.labels),
                    **_labelled(document.label),
                    **({"classes": list(document.classes)} if document.classes else {}),
                    **_shown_pictures(document.pictures),
                    "stretches": [
                        {"trained": trained, "text": text} for trained, text in self.stretches(document)
                    ],
                }
                for document in self.documents
            ],
        }

    def __repr__(self) -> str:
        """A summary on one line; `print` shows the row."""
        return (
            f"<fastpack.PackedRow {self.number} of {self.rows:,}: {counted(self.tokens, 'token')}, "
            f"{counted(len(self.documents), 'document')}>"
        )

    def __str__(self) -> str:
        """The row as text; trained tokens stand between « and »."""
        from fastpack.report.display.rows import row_page  # noqa: PLC0415  needed where it is shown

        return row_page(self, color=False)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.report.display.notebook import row_fragment  # noqa: PLC0415  needed where it is shown

        return row_fragment(self)


def inspect(
    packed: pa.Table | Splits | StrPath,
    row: int = 0,
    *,
    split: str = TRAIN,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    fetch: bool = False,
    storage: Mapping[str, str] | Storage | None = None,
    cache_dir: StrPath | None = None,
) -> PackedRow:
    """Reads a packed row: its documents, their boundaries, and its trained tokens.

    Args:
        packed: A table of packed rows, a folder that `pack_dir` wrote, or a file in it; also a URL of one in remote
            storage, of which the shard of the row is fetched.
        row: The row, from 0; from the end if negative.
        split: The split of a folder, or of some `Splits`.
        tokenizer: Turns ids to text; if not given, the one that the report names, if it is on this disk or in the hub's
            cache. One that the folder's manifest knows not to be that of the rows is refused.
        fetch: True if the small pictures of a notebook and a page are fetched where they lie on web servers or in stores.
            Rows may be from others, so that without it no server that they name is asked, and such a picture is shown as
            `not fetched`.
        storage: Options of remote storage, or a `Storage`, as for `pack_dir`.
        cache_dir: The folder of the cache, as for `read`.

    Returns:
        The row; `print` it, or look at it in a notebook.

    Raises:
        OptionError: There is no such row or split, or the rows were packed with another tokenizer.
        InputNotFoundError: There is no such file or folder.
        FastpackError: It holds no packed rows.

    Examples:
        >>> import fastpack
        >>> table = fastpack.pack_files(
        ...     "examples/chat.jsonl", "examples/tokenizer", max_length=512
        ... )
        >>> row = fastpack.inspect(table, row=-1)
        >>> row.number, row.rows
        (3, 4)
        >>> row.documents[0].trained > 0
        True
    """
    check_type("row", row, int, "a whole number")
    check_switch("fetch", fetch)
    if isinstance(packed, Splits):
        packed = packed.validation if split == "validation" else packed.train
    access = RemoteAccess.of("inspect", storage, cache_dir)
    found = _read(packed, split, row, access)
    count = found.table.num_rows if found.rows is None else found.rows
    number = _number(row, count, found.where)
    documents = list(_documents(found, number - found.first))
    files = PictureFiles(found.folders, fetch=fetch, access=access, here_only=not fetch)
    has_prompt = "prompt_ids" in found.table.column_names
    pretrained = _tokenizer_of(found, tokenizer)
    return PackedRow(found.where, number, count, documents, pretrained, files, has_prompt=has_prompt)


class _InspectedRows(NamedTuple):
    """The rows of a source, with its tokenizer and its files.

    Attributes:
        where: The file or folder.
        table: The rows.
        tokenizer: The name of the tokenizer in the report; empty if there is none.
        fingerprint: The digest of the tokenizer in the manifest; empty if there is none.
        sources: The files by the numbers in `source_file`.
        classes: The names of the classes by their numbers; empty where no names are known.
        first: The number of the first row of `table`.
        rows: The number of rows of the source, if `table` has a part of them.
        folders: The packed folder of the rows, if there is one.
    """

    where: str
    table: pa.Table
    tokenizer: str = ""
    fingerprint: str = ""
    sources: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    first: int = 0
    rows: int | None = None
    folders: tuple[Folder, ...] = ()


def _number(row: int, count: int, where: str) -> int:
    """The number of a row from the beginning.

    Raises:
        OptionError: There is no such row.
    """
    number = row + count if row < 0 else row
    if not 0 <= number < count:
        has = f"rows 0 to {count - 1}" if count else "no rows"
        message = f"`{where}` has {has}, not `{row}`"
        raise OptionError(message, "row")
    return number


def _read(packed: pa.Table | StrPath, split: str, row: int, access: RemoteAccess) -> _InspectedRows:
    if not isinstance(packed, (str, os.PathLike)):
        if not hasattr(packed, "schema") or not hasattr(packed, "slice"):
            message = f"must be a pyarrow.Table or a path, not a `{type(packed).__qualname__}`"
            raise OptionTypeError(message, "packed")
        check_names("the table", packed.schema)
        return _found("<table>", packed, _values_of(carried_report(packed)), {})
    text = folder_of("packed", packed, takes_urls=True)
    if is_url(text) or access.filesystem is not None:
        return _read_remote(text, split, row, access)
    return _read_local(Path(text), split)


def _read_local(path: Path, split: str) -> _InspectedRows:
    """The rows of a folder, or of a file, of this machine."""
    if path.is_dir():
        folder = Folder(path)
        report = _report_in(folder.files)
        found = _found(str(path), folder.read_stored(split), report, folder.of_job("made_by"))
        return found._replace(folders=(folder,))
    if path.exists() and not path.is_file():
        message = f"{path} is no file that can be looked into, such as train-00000.arrow"
        raise FastpackError(message)
    if not path.exists():
        raise InputNotFoundError(errno.ENOENT, "no such file", str(path))
    if path.suffix == ".msgpack":
        message = f"{path}: rows in MessagePack are not shown; read them with `msgpack.unpackb`"
        raise FastpackError(message)
    table = stored_table_of(path)
    # The files of a split may lie in a folder of their own.
    for above in path.absolute().parents[:2]:
        if (above / MANIFEST).is_file():
            report, folder = _report_in(LocalFiles(above)), Folder(above)
            found = _found(str(path), table, report, folder.of_job("made_by"))
            return found._replace(folders=(folder,))
    return _found(str(path), table, _report_in(LocalFiles(path.absolute().parent)), {})


def _read_remote(url: str, split: str, row: int, access: RemoteAccess) -> _InspectedRows:
    """The rows of the shard in remote storage that holds a row."""
    folder, shards = _folder_and_shards(url, split, access)
    count = sum(shard.rows or 0 for shard in shards)
    left = number = _number(row, count, public(url))
    for shard in shards:
        if left < (shard.rows or 0):
            break
        left -= shard.rows or 0
    with folder.opened([shard]) as paths:
        table = folder.table_of(shard, paths[0])
    folder.check_rows(shard, table)
    found = _found(public(url), table, _report_in(folder.files), folder.of_job("made_by"))
    return found._replace(first=number - left, rows=count, folders=(folder,))


def _folder_and_shards(url: str, split: str, access: RemoteAccess) -> tuple[Folder, list[Shard]]:
    """The folder at a URL and the shards of a split; or the folder of the file at a URL, and this file."""
    if not url.rstrip("/").endswith(ROWS):
        folder = Folder(url, access=access)
        return folder, folder.of(split)
    above, _, name = url.rpartition("/")
    # The files of a split may lie in a folder of their own.
    if above.rpartition("/")[2] == split and RemoteFiles(above, access).content(MANIFEST) is None:
        above, name = above.rpartition("/")[0], f"{split}/{name}"
    folder = Folder(above, access=access)
    shards = [shard for shard in folder.shards if shard.name == name]
    if not shards:
        raise InputNotFoundError(errno.ENOENT, "no such shard in the manifest of its folder", public(url))
    return folder, shards


def _found(
    where: str, table: pa.Table, report: Mapping[str, JsonValue], made_by: Mapping[str, JsonValue]
) -> _InspectedRows:
    named, digest = report.get("tokenizer"), made_by.get("tokenizer")
    sources, classes = report.get("sources"), report.get("classes")
    return _InspectedRows(
        where,
        table,
        named if isinstance(named, str) else "",
        digest if isinstance(digest, str) else "",
        tuple(map(str, sources)) if isinstance(sources, list) else (),
        tuple(map(str, classes)) if isinstance(classes, list) else (),
    )


def _report_in(files: LocalFiles | RemoteFiles) -> Mapping[str, JsonValue]:
    """The values of the report in a folder; empty if there is no readable one."""
    try:
        return _values_of(report_of(files))
    except (FastpackError, OSError):
        return {}


def _values_of(report: bytes | None) -> Mapping[str, JsonValue]:
    """The values in the JSON of a report; empty if there is none, or it cannot be read."""
    try:
        return {} if report is None else ReportFacts.from_json(report).to_dict()
    except OptionError:
        return {}


def _documents(found: _InspectedRows, row: int) -> Iterator[PackedDocument]:
    """The documents of a row."""
    from fastpack._fastpack import inspect_row  # noqa: PLC0415  loads pyarrow

    try:
        documents = inspect_row(expanded(found.table.slice(row, 1)))
    except FastpackError as broken:
        message = f"{found.where}, row {row}: {broken}"
        raise FastpackError(message) from broken
    pictures = _pictures(found.table.slice(row, 1))
    for at, (start, ids, labels, file, line, has_targets, label) in enumerate(documents):
        if labels and not has_targets and len(labels) != len(ids):
            message = (
                f"{found.where}, row {row}: document {at} has {counted(len(ids), 'token')} and {counted(len(labels), 'label')}, "
                "of which each token has one; pack again"
            )
            raise FastpackError(message)
        source = found.sources[file] if 0 <= file < len(found.sources) else ""
        whole = tuple(label) if isinstance(label, list) else label
        classes = tuple(_named(whole, found.classes))
        own = tuple(picture for picture in pictures if picture.document == at)
        yield PackedDocument(start, ids, labels, source, line, has_targets, whole, classes, own)


def _pictures(row: pa.Table) -> list[PictureReference]:
    """The pictures of a row."""
    if IMAGES not in row.column_names:
        return []
    try:
        return references_of(row.column(IMAGES)[0].as_py() or [])
    except ValueError as broken:
        raise FastpackError(str(broken)) from broken


def _shown_pictures(pictures: tuple[PictureReference, ...]) -> dict[str, JsonValue]:
    """The pictures of a document as JSON, if it has any."""
    return {"pictures": [picture.place for picture in pictures]} if pictures else {}


def _labelled(label: int | bool | tuple[float, ...] | None) -> dict[str, JsonValue]:
    """The label of a document as JSON, if it has one."""
    if label is None:
        return {}
    return {"label": list(label) if isinstance(label, tuple) else label}


def _named(label: int | bool | tuple[float, ...] | None, classes: tuple[str, ...]) -> Iterator[str]:
    """The names of the classes that a label tells of."""
    numbers = [at for at, truth in enumerate(label) if truth] if isinstance(label, tuple) else [label]
    for number in numbers:
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(classes):
            yield classes[number]


def _tokenizer_of(
    found: _InspectedRows, tokenizer: TokenizerArgument | Tokenizer | None
) -> Pretrained | None:
    """The tokenizer given, or the one that the report names; `None` if there is neither."""
    from fastpack.tokenizer.arguments import recorded_tokenizer  # noqa: PLC0415  loads more than tables of ids need
    from fastpack.tokenizer.tokenizer import pretrained  # noqa: PLC0415  likewise

    if tokenizer is not None:
        loaded = pretrained(tokenizer, revision=None, token=None)
        if found.fingerprint and loaded.fingerprint != found.fingerprint:
            named = f"; report.json names `{found.tokenizer}`" if found.tokenizer else ""
            message = f"by the manifest, the rows of `{found.where}` were packed with another{named}"
            raise OptionError(message, "tokenizer")
        return loaded
    place = recorded_tokenizer(found.tokenizer) if found.tokenizer else None
    if place is None:
        return None
    try:
        loaded = pretrained(place, revision=None, token=None)
    except FastpackError:
        return None  # the tokenizer has moved since: the row is shown as ids
    return None if found.fingerprint and loaded.fingerprint != found.fingerprint else loaded
