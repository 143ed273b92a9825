"""`verify`: checks the files, the rows and the tokens of a packed folder."""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack._fastpack import check_rows, document_hashes, one_line
from fastpack.api.recipes import options_of_manifest
from fastpack.arguments.checks import check_switch, check_type, shown
from fastpack.arguments.plural import counted
from fastpack.arguments.strategy import cuts_at_row_end
from fastpack.arguments.urls import is_url
from fastpack.dataset.folder import Folder, column_differences, table_of
from fastpack.dataset.manifest import MANIFEST, NOT_THERE, change_of, non_shard_files, report_of
from fastpack.dataset.packed_files import RemoteAccess, RemoteFiles
from fastpack.dataset.pictures.files import PictureFiles
from fastpack.dataset.pictures.references import references_of
from fastpack.errors import FastpackError, OptionError
from fastpack.types import IMAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from fastpack.dataset.folder import Shard
    from fastpack.dataset.packed_files import ListedFile
    from fastpack.dataset.pictures.references import PictureReference
    from fastpack.options.storage import Storage
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import JsonValue, RecordFilter, RecordMap, StrPath

    _Functions = Mapping[str, RecordFilter | RecordMap]

__all__ = ["Verification", "verify"]

_FILES: Final = 8
"""The number of input files that a sample is taken from, evenly spread."""

_SHOWN: Final = 20
"""The most problems that are printed."""

_SAME: Final = (
    "train_on",
    "turns",
    "special_tokens",
    "overlong",
    "objective",
)
"""The options of a recipe that decide the tokens and labels of a document."""

_IN_PART: Final = ("chat_template", "reading", "strategy", "padding")
"""The options of a recipe of whose values a part decides them."""

_OF_SOURCES: Final = ("files",)
"""The options of a recipe that decide how the records of each source are read."""


class Verification(NamedTuple):
    """The result of `verify`; `print` shows it. It is false where a condition is wanted if there are problems.

    Attributes:
        folder: The folder.
        files: The number of shards.
        rows: The number of rows in all shards.
        documents: The number of documents; padding counts as one where it has an entry of its own.
        tokens: The number of tokens, padding included.
        made_again: The number of documents of the inputs that were tokenized again and compared.
        pictures: The number of pictures that were opened.
        problems: Messages about errors, one line each; empty if there are none.
        notes: Skipped comparisons, each with the reason.
    """

    folder: str
    files: int
    rows: int
    documents: int
    tokens: int
    made_again: int
    pictures: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def __bool__(self) -> bool:
        """True if there are no problems, as `ok`."""
        return self.ok

    def raise_for_problems(self) -> None:
        """Raises a `FastpackError` with the first problem and their number, if there are any."""
        if self.ok:
            return
        others = len(self.problems) - 1
        more = f" (and {others:,} more)" if others else ""
        message = f"{one_line(self.folder)}: {self.problems[0]}{more}"
        raise FastpackError(message)

    def __str__(self) -> str:
        """The counts, the notes, and the problems."""
        counts = (
            (self.files, "file"),
            (self.rows, "row"),
            (self.documents, "document"),
            (self.tokens, "token"),
        )
        lines = [
            f"{one_line(self.folder)}: {', '.join(counted(count, noun) for count, noun in counts)}",
            f"documents tokenized again: {self.made_again:,}",
            *([f"pictures opened: {self.pictures:,}"] if self.pictures else []),
            *(f"not compared: {note}" for note in self.notes),
            *(f"wrong: {problem}" for problem in self.problems[:_SHOWN]),
        ]
        if len(self.problems) > _SHOWN:
            lines.append(f"wrong: and {len(self.problems) - _SHOWN:,} more")
        return "\n".join(lines if self.problems else [*lines, "all is well"])


def verify(
    folder: StrPath,
    *,
    tokenizer: StrPath | Tokenizer | None = None,
    sample: int = 100,
    pictures: bool = False,
    filter: RecordFilter | None = None,  # noqa: A002  as in `pack_dir`
    map: RecordMap | None = None,  # noqa: A002  likewise
    storage: Mapping[str, str] | Storage | None = None,
) -> Verification:
    """Checks a packed folder: its files against the manifest, every row, and a sample of its inputs tokenized again.

    The manifest is as fastpack wrote it, and all files have the sizes and hashes that it lists. In each row, columns have
    the same length, `seq_lengths` come to the tokens, positions restart at each document, labels are tokens or -100, and
    first tokens have none. Documents of a sample of the recorded inputs are packed again, with the same options, and must
    be among the rows. Folders of other tools are read too, with `seq_lengths` or `position_ids` alone.

    A folder may be from others, so that nothing it names is loaded or fetched but the pictures that are asked for:
    functions run only if they are given here, and the tokenizer of `report.json` is used if it is on this disk or in the
    hub's cache.

    Args:
        folder: The folder; also a URL of one in remote storage, whose files are fetched once more, one at a time.
        tokenizer: The tokenizer of the rows; if not given, the one that `report.json` names. Ids need none.
        sample: About how many documents are tokenized again; 0 for none.
        pictures: True to open every picture of the rows, read all its pixels, and compare its size. It needs
            Pillow. Those in remote storage are fetched, those on web servers if the job did; without it none is, and documents
            that show one are not tokenized again.
        filter: The function that chose the records, as it was given to `pack_dir`. Without it, the documents of a job that
            had one are not compared.
        map: The function that changed them, likewise.
        storage: Options of remote storage, or a `Storage`, as for `pack_dir`.

    Returns:
        The counts and the problems; `ok` is true if there are none, and `raise_for_problems()` raises the first.

    Raises:
        InputNotFoundError: There is no such folder.
        FastpackError: It holds no packed rows, or its manifest has changed since fastpack wrote it or lists a file outside
            the folder.

    Examples:
        >>> import fastpack, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fastpack.pack_dir(
        ...         "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=512
        ...     )
        ...     found = fastpack.verify(folder, tokenizer="examples/tokenizer")
        >>> found.problems, found.made_again
        ((), 30)
    """
    check_type("sample", sample, int, "a number of documents")
    check_switch("pictures", pictures)
    access = RemoteAccess.of("verify", storage)
    packed = Folder(folder, sized=False, access=access)
    with tempfile.TemporaryDirectory() as fetched:
        if isinstance(packed.files, RemoteFiles):
            largest = max(shard.file.bytes or 0 for shard in packed.shards)
            packed.files = packed.files.checked_afresh(fetched, largest)
        files = PictureFiles([packed], access=access) if pictures else None
        checked = _Findings(packed, files)
        for shard in packed.shards:
            checked.look_at(shard)
        for file in non_shard_files(packed.manifest):
            checked.compare(file)
        rows = packed.manifest.get("files")
        if isinstance(rows, list) and not checked.problems and sample > 0:
            functions = {"filter": filter, "map": map}
            passed = {name: function for name, function in functions.items() if function is not None}
            checked.tokenize_again(tokenizer, sample, passed, storage)
        return checked.verification()


class _Findings:
    """The counts, problems and notes so far."""

    def __init__(self, packed: Folder, pictures: PictureFiles | None) -> None:
        self._packed = packed
        self._files_of_pictures = pictures
        self._shows_remote = False
        self._opened = 0
        self._counts = [0, 0, 0, 0]
        self._first: tuple[str, pa.Schema] | None = None
        self.made_again = 0
        self.problems: list[str] = []
        self._notes: list[str] = (
            [] if packed.manifest else ["no manifest.json, so neither files nor inputs are known"]
        )

    def verification(self) -> Verification:
        """The result."""
        files, rows, documents, tokens = self._counts
        return Verification(
            folder=self._packed.name,
            files=files,
            rows=rows,
            documents=documents,
            tokens=tokens,
            made_again=self.made_again,
            pictures=self._opened,
            problems=tuple(map(one_line, self.problems)),
            notes=tuple(map(one_line, self._notes)),
        )

    def look_at(self, shard: Shard) -> None:
        """Compares a file with the manifest, and checks its rows."""
        self._counts[0] += 1
        try:
            if not self._packed.files.is_remote and not self.compare(shard.file):
                return
            # Files are compared while the next ones are fetched.
            table = self._rows_of(shard)
            self._compare_columns(shard, table.schema)
            broken_rules, counts = check_rows(table, json.dumps(dict(self._packed.options)))
            self.problems += [f"{self._packed.shown(shard)}, row {row}: {what}" for row, what in broken_rules]
            self._open_pictures(shard, table)
        except FastpackError as broken:
            self._add(self._packed.shown(shard), str(broken))
            return
        self._counts[1] += table.num_rows
        if counts is not None:
            self._counts[2] += counts[0]
            self._counts[3] += counts[1]

    def _open_pictures(self, shard: Shard, table: pa.Table) -> None:
        """Opens each picture of some rows once, on all threads, if that is wanted."""
        files = self._files_of_pictures
        if IMAGES not in table.column_names:
            return
        if files is None:
            self._shows_remote = self._shows_remote or _shows_remote(table)
            return
        rows: dict[PictureReference, int] = {}
        for row, cell in enumerate(table.column(IMAGES)):
            try:
                references = references_of(cell.as_py() or [])
            except ValueError as broken:
                self._add(f"{self._packed.shown(shard)}, row {row}", str(broken))
                continue
            for reference in references:
                rows.setdefault(reference._replace(document=0, pictures=0), row)

        def refused(reference: PictureReference) -> str | None:
            try:
                files.opened(reference)
            except ValueError as raised:
                return str(raised)
            return None

        with ThreadPoolExecutor() as threads:
            faults = threads.map(refused, rows)
            for row, fault in zip(rows.values(), faults, strict=True):
                self._opened += 1
                if fault:
                    self._add(f"{self._packed.shown(shard)}, row {row}", fault)

    def _rows_of(self, shard: Shard) -> pa.Table:
        """The rows of a shard in the full layout."""
        named = self._packed.shown(shard)
        with self._packed.opened([shard]) as paths:
            return table_of(paths[0], named)

    def compare(self, file: ListedFile) -> bool:
        """Compares a file with the manifest; returns whether it is there."""
        try:
            change = change_of(self._packed.files, file)
        except FastpackError as broken:
            change = str(broken)
        if change:
            self._add(self._packed.files.shown(file.name), change)
        return change != NOT_THERE

    def _add(self, named: str, problem: str) -> None:
        self.problems.append(problem if named in problem else f"{named}: {problem}")

    @property
    def _is_labelled(self) -> bool:
        return self._first is not None and "labels" in self._first[1].names

    def _compare_columns(self, shard: Shard, schema: pa.Schema) -> None:
        if self._first is None:
            self._first = shard.name, schema
        first, wanted = self._first
        self.problems += [
            f"{self._packed.shown(shard)}: {difference} in {first}"
            for difference in column_differences(schema, wanted)
        ]

    def tokenize_again(
        self,
        tokenizer: StrPath | Tokenizer | None,
        sample: int,
        functions: _Functions,
        storage: Mapping[str, str] | Storage | None,
    ) -> None:
        """Packs a sample of the inputs again, and looks for its documents among the rows."""
        from fastpack.tokenizer.arguments import recorded_tokenizer  # noqa: PLC0415  likewise

        recorded_inputs = _inputs_of(self._packed)
        inputs = {path: recorded for path, recorded in recorded_inputs.items() if not is_url(path)}
        if remote := len(recorded_inputs) - len(inputs):
            self._notes.append(
                f"{counted(remote, 'input')} in remote storage, from which `verify` reads nothing"
            )
        for path in [path for path in inputs if "\ufffd" in path and not Path(path).exists()]:
            # A manifest holds such a name as it is shown.
            del inputs[path]
            self._notes.append(f"the input {path}, whose name is no UTF-8")
        changes = {
            path: _input_changed(path, recorded if isinstance(recorded, dict) else {})
            for path, recorded in inputs.items()
        }
        self.problems += [problem for problem in changes.values() if problem]
        unchanged = [path for path, problem in changes.items() if not problem]
        reason = _why_not_packed_again(self._packed, functions)
        if self._shows_remote:
            reason = "all documents of the inputs, as some show pictures in remote storage: pass pictures=True to fetch them"
        if reason or not unchanged:
            if reason or inputs:
                self._notes.append(reason or "none of the recorded inputs is there as it was")
            return
        chosen = unchanged[:: max(1, len(unchanged) // _FILES)][:_FILES]
        limit = max(1, sample // len(chosen))
        try:
            recipe = _recipe_of(self._packed)
        except OptionError as unknown:
            self._notes.append(f"the inputs cannot be packed again: {unknown}")
            return
        named = self._recorded() if tokenizer is None else None
        place = tokenizer if named is None else recorded_tokenizer(named)
        if place is None and named is not None:
            self._notes.append(
                f"all documents of the inputs, as their tokenizer `{shown(named)}`, which report.json names, is neither on "
                "this disk nor in the hub's cache: pass it"
            )
            return
        fetches = self._files_of_pictures is not None
        try:
            again, table, left_out = _packed_again(
                self._packed,
                recipe,
                chosen,
                limit,
                place,
                functions,
                storage=storage,
                is_labelled=self._is_labelled,
                fetches=fetches,
            )
        except FastpackError as refused:
            self.problems.append(f"the inputs cannot be packed again: {refused}")
            return
        self._compare_sample(again, table, 0 if fetches else left_out)

    def _compare_sample(self, again: Folder, table: pa.Table, unfetched: int) -> None:
        """Compares a sample that was packed again; `unfetched` documents show pictures that were not fetched."""
        if unfetched:
            self._notes.append(
                f"{counted(unfetched, 'document')} of the sample, whose pictures are not on this machine: pass pictures=True to "
                "fetch those in remote storage"
            )
        other = _other_parts(self._packed, again)
        if other is None:
            self._look_for(table)
        else:
            self.problems.append(f"the {other} given is not the one that the rows were packed with")

    def _recorded(self) -> str | None:
        """The tokenizer that the report names."""
        from fastpack.report.report import Report  # noqa: PLC0415  needed here alone

        report = report_of(self._packed.files)
        named = None if report is None else Report.from_json(report).to_dict().get("tokenizer")
        return named if isinstance(named, str) else None

    def _look_for(self, table: pa.Table) -> None:
        """Looks for the documents of a table of one document a row among the rows of the folder."""
        self.made_again = table.num_rows
        if not self.made_again:
            self._notes.append("the sample came to no documents")
            return
        missing = {each: row for row, each in enumerate(document_hashes(table))}
        for shard in self._packed.shards:
            if missing:
                there = set(document_hashes(self._rows_of(shard)))
                missing = {each: row for each, row in missing.items() if each not in there}
        drawn = self._packed.options.get("weights") is not None
        if drawn and len(missing) < self.made_again:
            self._notes.append(
                f"{len(missing):,} of {self.made_again:,} documents of the sample are in no row; a part of the sources was drawn"
            )
            return
        for row in sorted(missing.values())[:_SHOWN]:
            ids: list[int] = table["input_ids"][row].as_py()
            self.problems.append(
                f"no row has document {row} of the sample, with {len(ids):,} tokens that begin with "
                f"{', '.join(map(str, ids[:8]))}: its tokens or labels are made otherwise today"
            )


def _shows_remote(table: pa.Table) -> bool:
    """True if rows show pictures in remote storage."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow.compute as pc  # noqa: PLC0415  likewise

    column = table.column(IMAGES)
    if not pa.types.is_list(column.type) or not pa.types.is_struct(column.type.value_type):
        return False
    paths = pc.struct_field(pc.list_flatten(column), "path").unique()
    return any(is_url(str(path)) for path in paths.to_pylist())


def _input_changed(path: str, recorded: Mapping[str, JsonValue]) -> str | None:
    """The difference between an input and the file that was packed; `None` if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return f"the input {path} is not there any more"
    # Times before 1970 are recorded as 0.
    if (found.st_size, max(found.st_mtime_ns, 0)) != (recorded.get("size"), recorded.get("modified")):
        return f"the input {path} has changed since it was packed"
    return None


def _inputs_of(packed: Folder) -> Mapping[str, JsonValue]:
    """The entries of the input files in the manifest."""
    files = packed.of_job("inputs").get("files")
    return files if isinstance(files, dict) else {}


def _sources_of(packed: Folder) -> list[Mapping[str, JsonValue]]:
    """The options of each source in the manifest."""
    job = packed.manifest.get("job")
    listed = job.get("sources") if isinstance(job, dict) else None
    return [source for source in listed if isinstance(source, dict)] if isinstance(listed, list) else []


def _why_not_packed_again(packed: Folder, functions: Mapping[str, object]) -> str | None:
    """The reason why documents cannot be packed again from the manifest; `None` if they can."""
    options = packed.options
    if not _inputs_of(packed) or "max_length" not in options:
        return "the rows were packed from memory, which the manifest records no inputs of"
    if differing := _differing_functions(packed, functions):
        return f"all documents of the inputs, as they went through {differing}"
    objective = options.get("objective")
    if isinstance(objective, dict) and objective.get("kind") != "causal":
        return "the rows are of another objective than `causal`, whose documents are not compared"
    if cuts_at_row_end(strategy := options.get("strategy")):
        return f'strategy="{strategy}" cuts documents where rows end'
    if options.get("order.on_remainder") == "drop" and options.get("order") == "balanced":
        return 'on_remainder="drop" left out documents that nothing names'
    return None


def _differing_functions(packed: Folder, functions: Mapping[str, object]) -> str | None:
    """The functions of a folder that are not given, or those given that it has not, in words; `None` if they agree."""
    used = _functions_of(packed)
    if missing := [f"`{name}`" for name in used if name not in functions]:
        return f"{' and '.join(missing)}, which a manifest only names: pass the same again"
    unused = next((name for name in functions if name not in used), None)
    return unused and f"no `{unused}`, which is given here"


def _other_parts(packed: Folder, again: Folder) -> str | None:
    """The tokenizer or template that differs in two folders, in words; `None` if there is none."""
    before, now = packed.of_job("made_by"), again.of_job("made_by")
    parts = (("tokenizer", "tokenizer"), ("template", "chat template"))
    return next((words for name, words in parts if now.get(name) != before.get(name)), None)


def _functions_of(packed: Folder) -> list[str]:
    """The functions that a folder was packed with."""
    from fastpack.records.filter_and_map import FUNCTIONS  # noqa: PLC0415  loads the native module

    transform = str(packed.of_job("made_by").get("transform") or "")
    recipe = packed.manifest.get("recipe")
    listed = recipe if isinstance(recipe, dict) else {}
    unheld = listed.get("unheld")
    recorded = [*listed, *(unheld if isinstance(unheld, dict) else {})]
    return [
        name
        for name in FUNCTIONS
        if name in recorded or re.search(rf"(?:^| ){name} (?:named|has) ", transform)
    ]


def _packed_again(
    packed: Folder,
    recipe: Mapping[str, object],
    paths: list[str],
    limit: int,
    tokenizer: StrPath | Tokenizer | None,
    functions: _Functions,
    *,
    storage: Mapping[str, str] | Storage | None,
    is_labelled: bool,
    fetches: bool,
) -> tuple[Folder, pa.Table, int]:
    """Packs the first records of some inputs by the recipe, one document a row.

    Returns the folder's manifest, the rows, and the number of records that are left out for their pictures. None is fetched
    unless `fetches` says so.
    """
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    from fastpack.api import pack_dir  # noqa: PLC0415  loads the native module
    from fastpack.options.function import function_of  # noqa: PLC0415  likewise
    from fastpack.options.native import value_in  # noqa: PLC0415  likewise
    from fastpack.options.packing import Unpacked  # noqa: PLC0415  likewise
    from fastpack.options.records import Reading  # noqa: PLC0415  likewise
    from fastpack.options.rows import Padding  # noqa: PLC0415  likewise
    from fastpack.options.storage import storage_of  # noqa: PLC0415  likewise
    from fastpack.options.tokens import ChatTemplate  # noqa: PLC0415  likewise
    from fastpack.storage.remote_pictures import without_remote_pictures  # noqa: PLC0415  likewise

    inputs, listed, options = _inputs_of(packed), _sources_of(packed), packed.options
    sources = []
    for path in paths:
        entry = inputs.get(path)
        number = entry.get("source") if isinstance(entry, dict) else None
        source = listed[number] if isinstance(number, int) else {}
        reading = source.get("reading")
        settings = {
            name: value
            for name, value in (reading.items() if isinstance(reading, dict) else ())
            if name in {"shape", "fields", "separator"} and value
        }
        settings |= _prompt_of(recipe, number)
        most = source.get("limit")
        sources.append(
            {"path": path, "limit": min(limit, most) if isinstance(most, int) else limit, **settings}
        )
    columns = ["input_ids", "seq_lengths", *(["labels"] if is_labelled else [])]
    now = packed.manifest.get("now")
    rendering = value_in(recipe, ChatTemplate)
    # Nothing resumes this job, so nobody is to be warned of a function without a fingerprint.
    wrapped = {name: function_of(name, function) for name, function in functions.items()}
    named = {name: it and dataclasses.replace(it, fingerprint="given") for name, it in wrapped.items()}
    with tempfile.TemporaryDirectory() as folder, nullcontext() if fetches else without_remote_pictures():
        report = pack_dir(
            output=f"{folder}/again",
            tokenizer=tokenizer,
            max_length=options["max_length"],  # type: ignore[arg-type]  # as the manifest has it
            files=sources,  # type: ignore[arg-type]  # likewise
            reading=Reading(
                examples=getattr(recipe.get("reading"), "examples", None),
                images=getattr(recipe.get("reading"), "images", None),
            ),
            strategy=Unpacked(align_to=getattr(recipe.get("strategy"), "align_to", None)),
            padding=Padding(token_id=getattr(recipe.get("padding"), "token_id", None)),
            on_bad_record="skip",
            max_lost="100%",
            columns=columns,  # type: ignore[arg-type]  # the line above names them
            chat_template=dataclasses.replace(
                rendering, now=datetime.fromisoformat(str(now)[:26]) if now else None
            ),
            progress=False,
            storage=storage_of(storage).options,  # its filesystem has the packed folder, not the inputs
            **{name: value for name, value in recipe.items() if name in _SAME},  # type: ignore[arg-type]  # likewise
            **named,  # type: ignore[arg-type]  # likewise
        )
        again = Folder(Path(folder) / "again")
        table = again.read(again.splits[0])
        # The shards are deleted with the temporary folder, so they are read into memory.
        rows = table.take(pa.array(range(table.num_rows), pa.int64()))
        dropped = report.dropped.get("picture")
        return again, rows, dropped.documents if dropped else 0


def _recipe_of(packed: Folder) -> dict[str, object]:
    """The options of the call that packed a folder which decide tokens and labels.

    They are read from the recipe, since the job in the manifest has the core's words: `eos=True` is `always` there.

    Raises:
        OptionError: The manifest has no recipe, or the recipe lacks an option that JSON cannot hold.
    """
    recipe = options_of_manifest(Path(packed.files.shown(MANIFEST)), packed.manifest)
    for name, kind in (recipe.get("unheld") or {}).items():
        if name in (*_SAME, *_OF_SOURCES, *_IN_PART):
            message = f"`{name}` was {kind}, which no manifest holds"
            raise OptionError(message, name)
    return {name: recipe[name] for name in (*_SAME, *_OF_SOURCES, *_IN_PART) if name in recipe}


def _prompt_of(recipe: Mapping[str, object], number: object) -> dict[str, JsonValue]:
    """The prompt of a source: its own, or else that of the call."""
    listed = recipe.get("files")
    known = isinstance(listed, list) and isinstance(number, int) and number < len(listed)
    own = listed[number] if known else {}  # type: ignore[index]  # as `known` says
    of_call = getattr(recipe.get("reading"), "prompt", None)
    prompt = own.get("prompt", of_call) if isinstance(own, dict) else of_call
    return {"prompt": prompt} if prompt else {}
