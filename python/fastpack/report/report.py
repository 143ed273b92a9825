"""`Report`: the counts and settings of a run as attributes, and a page when printed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from fastpack.arguments.checks import local_path
from fastpack.arguments.plural import counted
from fastpack.arguments.urls import is_url
from fastpack.errors import InputNotFoundError, OptionError, OptionTypeError
from fastpack.report.report_facts import (
    Count,
    Input,
    Noted,
    Place,
    ReportFacts,
    SplitConversations,
    carried_report,
    count_of,
    places_of,
    real,
    whole,
)
from fastpack.types import ObjectiveName, Splits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from fastpack.dataset.packed_files import RemoteAccess
    from fastpack.options.storage import Storage
    from fastpack.types import JsonValue, StrPath

__all__ = [
    "Balance",
    "Count",
    "Input",
    "Noted",
    "Place",
    "Report",
    "Share",
    "SplitConversations",
    "StageTime",
]


class Balance(NamedTuple):
    """The counts of documents or tokens that were read, kept and dropped."""

    read: int
    kept: int
    dropped: int


class StageTime(NamedTuple):
    """The seconds of a stage, summed over all threads: CPU time, and wall time (waiting included)."""

    cpu: float
    wall: float


class Share(NamedTuple):
    """The share of a source.

    Attributes:
        asked: The share that was asked for: of all that is drawn, or of the source where it has a `fraction` alone.
        got: The share that was drawn.
        drawn: The documents that were drawn; one that was drawn twice counts twice.
    """

    asked: float
    got: float
    drawn: Count


class Report(ReportFacts):
    """The report of a run. Read-only; `print(report)` shows all of it.

    Examples:
        >>> import fastpack
        >>> table = fastpack.pack_files(
        ...     "examples/chat.jsonl", "examples/tokenizer", max_length=512
        ... )
        >>> report = fastpack.Report.of(table)
        >>> report.rows == table.num_rows
        True

    Attributes:
        finished_before: True if another call had finished the job, so that this one packed nothing. Reports that are read have false.
    """

    finished_before: bool = False

    @classmethod
    def of(
        cls,
        table: pa.Table | Splits | StrPath,
        *,
        storage: Mapping[str, str] | Storage | None = None,
    ) -> Report:
        """The report of the run that made a table, both tables of some `Splits`, or a folder.

        Args:
            table: A result of `pack_files`, `pack_table` or `pack_records`, whose report has no times; or the folder
                that a run wrote, also a URL of one in remote storage.
            storage: Options of remote storage, or a `Storage`, as for `pack_dir`.

        Raises:
            OptionError: The table carries no report.
            OptionTypeError: It is neither a table nor a path.
            InputNotFoundError: The folder is not there, or holds no report.
        """
        if isinstance(table, (str, os.PathLike)):
            from fastpack.dataset.packed_files import RemoteAccess  # noqa: PLC0415  reports in memory need no file

            return cls.from_json(_report_of(os.fspath(table), RemoteAccess.of("Report.of", storage)))
        if isinstance(table, Splits):
            table = table.train
        if isinstance(table, Report):
            message = "is a report already"
            raise OptionTypeError(message, "table")
        if not hasattr(table, "schema"):
            message = f"must be a pyarrow.Table or a folder, not a `{type(table).__qualname__}`"
            raise OptionTypeError(message, "table")
        carried = carried_report(table)
        if carried is None:
            message = (
                "carries no report; the tables that `pack_files`, `pack_table` and "
                "`pack_records` return do, unless `replace_schema_metadata` or another library left it out"
            )
            raise OptionError(message, "table")
        return cls.from_json(carried)

    @property
    def documents(self) -> Balance:
        """The documents read, kept and dropped."""
        return _balance(self._mapping("documents"))

    @property
    def tokens(self) -> Balance:
        """The tokens read, kept and dropped; truncated tokens count as dropped."""
        return _balance(self._mapping("tokens"))

    @property
    def dropped(self) -> dict[str, Count]:
        """The documents that were dropped whole, by reason."""
        reasons = self._mapping("dropped").items()
        return {reason: count_of(counts) for reason, counts in reasons if isinstance(counts, dict)}

    @property
    def truncated(self) -> Count:
        """The documents that were truncated to fit a row, and the tokens that they lost."""
        return count_of(self._mapping("truncated"))

    @property
    def repeated(self) -> Count:
        """The documents in repeated rows, and their tokens. They count as kept once."""
        return count_of(self._mapping("repeated"))

    @property
    def sources(self) -> list[str]:
        """The paths of the files; the column `source_file` holds indices into this list."""
        listed = self._values.get("sources")
        return [str(path) for path in listed] if isinstance(listed, list) else []

    @property
    def places(self) -> list[Place]:
        """The first places at which records were left out."""
        return places_of(self._values.get("places"))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return whole(self._values.get("rows"))

    @property
    def documents_per_row(self) -> float:
        """The mean number of documents in a row."""
        return real(self._values.get("documents_per_row"))

    @property
    def max_length(self) -> int | None:
        """The most tokens of a row; `None` if each document has its own row, of any length."""
        most = self._values.get("max_length")
        return None if most is None else whole(most)

    @property
    def row_length(self) -> str:
        """The most tokens of a row, as text."""
        return "any number of" if self.max_length is None else f"{self.max_length:,}"

    @property
    def objective(self) -> ObjectiveName:
        """The training objective."""
        found = self._values.get("objective", "causal")
        return next((name for name in get_args(ObjectiveName) if name == found), "causal")

    @property
    def classes(self) -> list[str]:
        """The names of the classes by their numbers; empty where no names are known."""
        names = self._values.get("classes")
        return [str(name) for name in names] if isinstance(names, list) else []

    @property
    def strategy(self) -> str:
        """The packing strategy."""
        return str(self._values.get("strategy", ""))

    @property
    def fill(self) -> float:
        """The share of the rows' room that tokens fill, from 0 to 1."""
        return real(self._values.get("fill"))

    @property
    def lower_bound(self) -> int:
        """The least number of rows that any packing of these documents needs."""
        return whole(self._values.get("lower_bound"))

    @property
    def trained_tokens(self) -> int:
        """The number of tokens that carry a label."""
        return whole(self._values.get("trained_tokens"))

    @property
    def straddling_tokens(self) -> int:
        """The number of tokens, in all documents read, that are only partly in trained text. They are trained."""
        return whole(self._values.get("straddling_tokens"))

    @property
    def picture_fill(self) -> float | None:
        """The share of the most pictures that rows may show; `None` without `max_images_per_pack`."""
        return self._share("picture_fill")

    @property
    def picture_token_fill(self) -> float | None:
        """The share of the most tokens of pictures that rows may have; `None` without `max_image_tokens_per_pack`."""
        return self._share("picture_token_fill")

    def _share(self, name: str) -> float | None:
        value = self._values.get(name)
        return None if value is None else real(value)

    @property
    def steps_per_epoch(self) -> dict[int, int]:
        """The number of optimizer steps in an epoch, by the rows in a step."""
        steps = self._mapping("steps_per_epoch")
        return {int(rows): whole(count) for rows, count in steps.items()}

    @property
    def engine(self) -> str:
        """The engine that made the ids."""
        return str(self._values.get("engine", ""))

    @property
    def engine_reason(self) -> str:
        """The reason for that engine."""
        return str(self._values.get("engine_reason") or "")

    @property
    def template_engine(self) -> str:
        """The engine that rendered conversations: `compiled` or `interpreted`; empty if there were none."""
        return str(self._values.get("template_engine") or "")

    @property
    def template_engine_reason(self) -> str:
        """The reason why the template is not compiled."""
        return str(self._values.get("template_engine_reason") or "")

    @property
    def per_file(self) -> dict[str, Report]:
        """The report of each file, by its path; empty unless each file has its own output."""
        reports = self._mapping("per_file").items()
        return {path: Report(report) for path, report in reports if isinstance(report, dict)}

    @property
    def splits(self) -> dict[str, Report]:
        """The reports of `train` and `validation`; empty unless documents were set aside for validation.

        Records that could not be read are in neither, nor are straddling tokens counted there.
        """
        reports = self._mapping("splits").items()
        return {split: Report(report) for split, report in reports if isinstance(report, dict)}

    @property
    def shares(self) -> dict[str, Share]:
        """The shares of the sources by their names; empty unless documents were drawn by `weights` or a `fraction`."""
        shares = self._mapping("shares").items()
        return {name: _share(share) for name, share in shares if isinstance(share, dict)}

    @property
    def appended_files(self) -> int | None:
        """The number of files that were new to the folder; `None` unless files were appended."""
        appended = self._mapping("appended")
        return whole(appended.get("files")) if appended else None

    @property
    def seconds(self) -> float | None:
        """The time of the run in seconds; `None` in a report without times."""
        timing = self._mapping("timing")
        return real(timing.get("seconds")) if timing else None

    @property
    def stages(self) -> dict[str, StageTime]:
        """The time of each stage, summed over all threads; empty in a report without times."""
        stages = self._mapping("timing").get("stages")
        named = stages.items() if isinstance(stages, dict) else ()
        return {name: _stage(times) for name, times in named if isinstance(times, dict)}

    @property
    def resumed_documents(self) -> int:
        """The number of documents that a stopped run of the same job had tokenized; 0 in a report without times."""
        return whole(self._mapping("timing").get("resumed_documents"))

    @property
    def compiled_conversations(self) -> int | None:
        """The number of conversations that compiled programs rendered; `None` in a report without times.

        It depends on what each thread has met before, so it belongs to a run, as its seconds do, and no table carries it.
        """
        timing = self._mapping("timing")
        return whole(timing.get("compiled_conversations")) if timing else None

    @property
    def interpreted_conversations(self) -> int | None:
        """The number of conversations that the interpreter or `transformers` rendered; `None` in a report without times.

        It depends on what each thread has met before, so it belongs to a run, as its seconds do, and no table carries it.
        """
        timing = self._mapping("timing")
        return whole(timing.get("interpreted_conversations")) if timing else None

    def __repr__(self) -> str:
        """A summary on one line; `print` shows the page."""
        return f"<fastpack.Report: {counted(self.documents.kept, 'document')} in {counted(self.rows, 'row')}>"

    def __str__(self) -> str:
        """The page that `print` shows, wrapped at the width of a terminal."""
        from fastpack.report.display.pages import report_page  # noqa: PLC0415  needed where it is shown

        return report_page(self)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.report.display.notebook import report_fragment  # noqa: PLC0415  needed where it is shown

        return report_fragment(self)

    def to_html(
        self,
        path: StrPath,
        *,
        packed: StrPath | None = None,
        storage: Mapping[str, str] | Storage | None = None,
    ) -> None:
        """Writes a page for a browser: one file that takes nothing from the network.

        Args:
            path: The file to write.
            packed: The folder of the rows, for the histograms, the shares of sources and some rows as text, which no
                report holds; also a URL of one in remote storage.
            storage: Options of remote storage, or a `Storage`, as for `pack_dir`.

        Raises:
            InputNotFoundError: There is no such folder.
            StorageError: The file cannot be written.

        Examples:
            >>> import fastpack, tempfile, pathlib
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     report = fastpack.pack_dir(
            ...         "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=512
            ...     )
            ...     page = pathlib.Path(folder, "report.html")
            ...     report.to_html(page, packed=folder)
            ...     page.read_text(encoding="utf-8").count("<svg")  # lengths, losses by row length, fill, documents in a row
            4
        """
        from fastpack.report.display.html_page import report_html, write_html  # noqa: PLC0415  needed where it is written

        facts = None
        if packed is not None:
            from fastpack.dataset.folder import Folder  # noqa: PLC0415  reports in memory need no file
            from fastpack.dataset.packed_files import RemoteAccess  # noqa: PLC0415  likewise
            from fastpack.dataset.row_facts import facts_of  # noqa: PLC0415  likewise

            facts = facts_of(Folder(packed, access=RemoteAccess.of("Report.to_html", storage)), self)
        write_html(path, report_html(self, facts))


_NO_REPORT: Final = "holds no report.json, which `pack_dir` and `fastpack pack` write"


def _report_of(folder: str, access: RemoteAccess) -> bytes:
    """The text of the report of a folder, or of a file in one."""
    from fastpack.arguments.failures import about  # noqa: PLC0415  reports in memory need no file
    from fastpack.dataset.manifest import REPORT, report_of  # noqa: PLC0415  likewise
    from fastpack.dataset.packed_files import LocalFiles, files_of  # noqa: PLC0415  likewise

    if is_url(folder) or access.filesystem is not None:
        files = files_of("table", folder.removesuffix(f"/{REPORT}"), access)
        found = report_of(files)
        if found is None:
            raise InputNotFoundError(errno.ENOENT, _NO_REPORT, files.name)
        return found
    path = Path(local_path("table", folder, "a folder"))
    place = path / "report.json" if path.is_dir() else path
    if not path.exists():
        raise InputNotFoundError(errno.ENOENT, "no such folder of packed rows", folder)
    if not place.is_file() or place.suffix != ".json":
        raise InputNotFoundError(errno.ENOENT, _NO_REPORT, folder)
    if place.name == REPORT:
        return report_of(LocalFiles(place.parent)) or b""
    with about(place, "cannot be read"):
        return place.read_bytes()


def _balance(counts: Mapping[str, JsonValue]) -> Balance:
    return Balance(*(whole(counts.get(name)) for name in Balance._fields))


def _stage(times: Mapping[str, JsonValue]) -> StageTime:
    return StageTime(*(real(times.get(name)) for name in StageTime._fields))


def _share(share: Mapping[str, JsonValue]) -> Share:
    """The share of a source."""
    drawn = share.get("drawn")
    return Share(
        real(share.get("asked")), real(share.get("got")), count_of(drawn if isinstance(drawn, dict) else {})
    )
