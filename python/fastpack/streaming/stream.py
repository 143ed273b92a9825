"""`PackStream`: the tables of a stream, and its state."""

from __future__ import annotations

import dataclasses
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, final

from fastpack import _fastpack
from fastpack.arguments.checks import check_switch, check_type, folder_of, shown, whole_number
from fastpack.arguments.failures import noted
from fastpack.errors import FastpackError, OptionError, RecordError
from fastpack.options import OPTIONS
from fastpack.options.mistakes.refusals import with_hint
from fastpack.options.native import native_inputs, native_model, native_options, value_in, with_processor
from fastpack.options.objective import objective_of
from fastpack.options.work import Ranks, Select, Weights
from fastpack.records.filter_and_map import functions_of
from fastpack.records.function_fingerprints import refuse_state_of_unknown, warn_of_unknown
from fastpack.records.sources import named_sources, weights_of
from fastpack.runtime.progress import watcher
from fastpack.runtime.ranks import greatest_of, rank_of
from fastpack.streaming.context_manager import Closing
from fastpack.streaming.estimate import sampled_epoch
from fastpack.streaming.repeated_errors import RepeatedAnswers, is_passing, renewed
from fastpack.streaming.states import StateDict, loaded, state_text, text_of
from fastpack.streaming.stats import StreamEstimate, StreamStats

if TYPE_CHECKING:
    import pyarrow as pa

    from fastpack.records.filter_and_map import NativeTransform
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import NativeTemplate
    from fastpack.types import JsonValue

_LOG_SECONDS: Final = 10.0
"""The seconds between two calls of `log`."""

__all__ = ["PackStream", "ranked", "rows_of_rank"]


class _Parts:
    """The checked arguments of a stream, in the form that the native module takes."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:  # type: ignore[explicit-any]  # checked by the native module
        arguments = with_processor(arguments)
        self.options: _fastpack.Options = native_options(arguments)
        _refuse_copies(arguments)
        names, files = named_sources(arguments["files"])
        arguments = {**arguments, "files": files}
        self.inputs: _fastpack.Inputs = native_inputs(arguments)
        self.even_weights = dict.fromkeys(names, 1.0) if _mixes_records(files) else None
        """Equal weights for all sources, if there are several with records of Python, which have to have some."""
        self.model: tuple[_fastpack.Pretrained | None, NativeTemplate, NativeTransform] = native_model(
            arguments, resumes=True
        )
        ranks, weights = value_in(arguments, Ranks), value_in(arguments, Weights)
        rank = rank_of(ranks.rank, ranks.world_size)
        greatest = greatest_of(ranks.all_reduce)
        if greatest is not None and arguments["cache_dir"] is not None:
            message = "stands in place of `cache_dir`; give one of them"
            raise OptionError(message, "all_reduce")
        self.packing = _fastpack.StreamOptions(
            batch_size=arguments["batch_size"],
            strategy=OPTIONS["strategy"].value_in(arguments),  # type: ignore[arg-type]  # the native module looks at it
            shuffle=arguments["shuffle"],
            epochs=arguments["epochs"],
            select=value_in(arguments, Select),
            weights=weights,
            ranks=ranks,
            rank=rank.rank,
            world_size=rank.world_size,
            rank_source=rank.source,
            max_steps=arguments["max_steps"],
            names=names,
            shares=_weights(weights.shares, names),
            cache_dir=None
            if arguments["cache_dir"] is None
            else folder_of("cache_dir", arguments["cache_dir"]),
            agreed=greatest is not None,
            by_row=arguments.get("by_row", False),
            validation=arguments["validation"],
            held_out=arguments.get("held_out", False),
        )
        self._answers = None if greatest is None else RepeatedAnswers(greatest)
        check_type("log", arguments["log"], (Callable, type(None)), "a function that takes a `StreamStats`")  # type: ignore[arg-type]
        self.world_size = rank.world_size
        self.progress = watcher(arguments["progress"])

    def start(self, state: str | None, *, strict: bool, again: bool) -> _fastpack.StreamTables:
        """Starts the threads. `again` is true if this process restarts its own stream."""
        if self._answers is not None:
            self._answers.begin(_step_of(state), again=again)
        return _fastpack.StreamTables(
            self.inputs, self.options, *self.model, self.packing, state, strict, self._answers, self.progress
        )

    @property
    def functions(self) -> NativeTransform:
        """The functions of the caller."""
        return self.model[2]

    def first_state(self) -> str:
        """The state before the first table."""
        return _fastpack.first_state(self.options, self.packing)

    def count(self) -> tuple[list[int], int, int]:
        """Counts the rows of the lanes, their tokens, and the tables of each rank."""
        return _fastpack.count_stream(self.inputs, self.options, *self.model, self.packing, self.progress)


def ranked(arguments: Mapping[str, Any], rank: int, world_size: int) -> dict[str, Any]:  # type: ignore[explicit-any]  # as a call has them
    """The arguments of a stream for one of several ranks."""
    ranks = dataclasses.replace(value_in(arguments, Ranks), rank=rank, world_size=world_size)
    return {**arguments, "ranks": ranks}


def rows_of_rank(arguments: Mapping[str, Any]) -> int:  # type: ignore[explicit-any]  # as a call has them
    """The rows that a rank takes one by one in a whole run, from the count in the `cache_dir` of the stream."""
    parts = _Parts({**arguments, "by_row": True})
    rows, _, steps = parts.count()
    ends_alone = parts.world_size == 1 and value_in(arguments, Ranks).on_end is None
    counted = sum(rows) if ends_alone else steps
    most = arguments["max_steps"]
    return counted if most is None else min(counted, most * arguments["batch_size"])


def _refuse_copies(arguments: Mapping[str, object]) -> None:
    """Refuses copies of the documents: a stream reads its input several times, and draws each time anew."""
    if getattr(objective_of(arguments), "copies", 1) != 1:
        message = "must be 1 in a stream, whose `epochs` say how often the input is read and drawn anew"
        raise OptionError(message, "objective.copies")


def _mixes_records(sources: object) -> bool:
    """True if there are several sources, and one gives records of Python."""
    listed = sources if isinstance(sources, list) else []
    return len(listed) > 1 and any(isinstance(it, Mapping) and "records" in it for it in listed)


def _step_of(state: str | None) -> int:
    """The number of tables up to a state."""
    step = 0 if state is None else loaded(state)["step"]
    return step if isinstance(step, int) else 0


def _weights(weights: object, names: list[str]) -> list[tuple[int, list[float]]]:
    """The weights in the order of the sources: lists, each with the row from which it applies."""
    if weights is None:
        return []
    wanted = (
        "a dict of a weight for each source that `files` names, or a list of such dicts as (row, weights)"
    )
    schedule = [(0, weights)] if isinstance(weights, Mapping) else weights
    found: list[tuple[int, list[float]]] = []
    try:
        for row, shares in schedule:  # type: ignore[attr-defined]  # what is no list is refused below
            found.append((whole_number("weights", row, 0), weights_of(shares, names)))
    except OptionError:
        raise
    except (TypeError, ValueError) as refused:
        message = f"must be {wanted}, not `{shown(weights)}`"
        raise OptionError(message, "weights") from refused
    if not found:
        message = f"must be {wanted}, not `{shown(weights)}`, which holds none"
        raise OptionError(message, "weights")
    return found


@final
class PackStream(Closing):
    """An iterator over tables of packed rows. Each table carries the state of the stream after it.

    `fastpack.stream` makes it. It starts when the first table is asked for. After its end, another loop over it starts
    again from the beginning. It can be pickled until it starts.

    Attributes:
        is_counted: True once `estimate()` or `index()` has counted all rows, and did not estimate them.
    """

    is_counted: bool

    def __init__(self, arguments: Mapping[str, Any]) -> None:  # type: ignore[explicit-any]  # checked by the native module
        """Checks the arguments of `fastpack.stream`."""
        self._arguments = dict(arguments)
        self.is_counted = False
        self._prepare(None, strict=True)

    def _prepare(self, state: str | None, *, strict: bool) -> None:
        self._parts = _Parts(self._arguments)
        self._lock = threading.Lock()
        self._tables: _fastpack.StreamTables | None = None
        self._state = state
        self._strict = strict
        self._ended = False
        self._closed = False
        # The error that comes again at each `next`; whether the next table is made once more; and of what the caller was warned.
        self._failure: Exception | None = None
        self._again = False
        self._warned = False
        self._warned_of_functions = False
        self._waited = 0.0
        # When this process asked for its first table, and the tokens before it; and when `log` was called.
        self._begun: tuple[float, int] | None = None
        self._logged = time.monotonic()

    def __iter__(self) -> PackStream:
        """Returns the stream; one that has ended starts again from its beginning."""
        with self._lock:
            if self._ended and not self._closed:
                self._tables, self._state, self._ended, self._again = None, None, False, False
        return self

    def __next__(self) -> pa.Table:
        """The next table.

        An error of the data, the options or a function comes again at each call. After an interrupt or a lost connection the
        next call goes on after the table that was returned last.

        Raises:
            FastpackError: The data cannot be read or packed.
        """
        tables = self._started()
        since = time.monotonic()
        if self._begun is None:
            self._begun = since, self.stats().tokens
        before, table = self._state, None
        try:
            self._warn(tables)
            table = next(tables)
            self._waited += time.monotonic() - since
            self._state = state_text(table)
            if time.monotonic() - self._logged >= _LOG_SECONDS:
                self._log()
        except StopIteration:
            self._ended = True
            self._log()
            raise
        except (OptionError, RecordError) as refused:
            hinted = with_hint(refused, "stream", self._arguments)
            self._fail(hinted, tables)
            raise hinted from refused.__cause__
        except BaseException as raised:
            if table is not None:
                # It was not returned, so it is made once more.
                self._state = before
                self._restart(tables)
            else:
                self._fail(raised, tables)
            raise
        return table

    def _started(self) -> _fastpack.StreamTables:
        """The tables that are being made; raises the error that ended them."""
        with self._lock:
            if self._ended or self._closed:
                raise StopIteration
            if self._failure is not None:
                raise renewed(self._failure)
            try:
                if self._tables is None:
                    self._tables = self._parts.start(self._state, strict=self._strict, again=self._again)
                    self._again = False
            except (OptionError, RecordError) as refused:
                raise with_hint(refused, "stream", self._arguments) from refused.__cause__
            return self._tables

    def _fail(self, raised: BaseException, tables: _fastpack.StreamTables) -> None:
        """Keeps an error that ended the threads, or begins again behind the last table where it may not come again."""
        if not isinstance(raised, Exception) or (tables.failed and (tables.passes or is_passing(raised))):
            self._restart(tables)
        elif tables.failed:
            self._failure = renewed(raised)

    def _restart(self, tables: _fastpack.StreamTables) -> None:
        """Makes the tables behind the last one that was returned once more."""
        with self._lock:
            if self._tables is tables:
                self._tables, self._again = None, True
        tables.close()

    def _warn(self, tables: _fastpack.StreamTables) -> None:
        """Warns once of conditions that the caller should know before the end."""
        if not self._warned_of_functions:
            self._warned_of_functions = True
            warn_of_unknown(self._parts.functions.warnings)
        if not self._warned and (warning := tables.warning) is not None:
            self._warned = True
            warnings.warn(warning, stacklevel=3)

    def __len__(self) -> int:
        """Refuses: a caller that asks for a length, such as a `DataLoader`, takes the stream for a list of samples."""
        message = (
            "a stream has no length; give a DataLoader `fastpack.torch.StreamDataset(stream)`, or take the tables as they "
            "come; `stream.estimate()` tells the steps of an epoch"
        )
        raise TypeError(message)

    def __bool__(self) -> bool:
        """A stream is true, whether it has ended or not."""
        return True

    def _log(self) -> None:
        """Tells the caller's `log` how the stream does."""
        self._logged = time.monotonic()
        log = self._arguments["log"]
        if log is not None:
            with noted("while fastpack called `log`"):
                log(self.stats())

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.report.display.notebook import stream_fragment  # noqa: PLC0415  needed where it is shown

        return stream_fragment(self)

    def state_dict(self) -> StateDict:
        """Returns the state of the stream after its last table: JSON values of some kilobytes.

        Returns:
            The state of this rank. `merge_state_dicts` joins the states of several ranks. Before the first table it is the
            beginning.
        """
        if self._state is None:
            return loaded(self._parts.first_state())
        return loaded(self._state)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue], *, strict: bool = True) -> None:
        """Resumes from a state: the next table is the one that followed it.

        Args:
            state_dict: The state of a stream of the same inputs and options, of any number of ranks.
            strict: True if a state of other inputs or options is refused. Without it the stream resumes as far as the
                documents of the open rows are found where the state names them.

        Raises:
            OptionError: It is not a state; of other inputs or options, which is found when the next table is asked for;
                without a lane of this rank; or `strict`, and a function of the stream has no fingerprint.
        """
        check_switch("strict", strict)
        text = text_of(state_dict)
        is_beginning = _fastpack.is_beginning(text)
        if strict and not is_beginning:
            refuse_state_of_unknown(functions_of(self._arguments))
        with self._lock:
            tables, self._tables = self._tables, None
            self._failure, self._again = None, False
            self._state, self._strict, self._ended, self._closed = text, strict, False, False
        if tables is not None:
            tables.close()

    @property
    def validation(self) -> PackStream:
        """Another stream, of the records that the option `validation` holds out, once through and in the order of the input.

        It has a state of its own, and starts again from its beginning with each loop over it. Its rows come from as few
        lanes as the ranks need, so that few documents fill them. Of several sources with records of Python among them, which
        are read as they come, it takes from each in turn.

        Raises:
            OptionError: The stream was made without `validation`.
        """
        if self._arguments["validation"] is None:
            message = "must be given, as the share of the records to hold out"
            raise OptionError(message, "validation")
        world_size, even = self._parts.world_size, self._parts.even_weights
        lanes = world_size * self._arguments["batch_size"] if world_size > 1 else 1
        unit = value_in(self._arguments, Weights).unit
        return PackStream(
            self._arguments
            | {
                "held_out": True,
                "shuffle": False,
                "epochs": 1,
                "max_steps": None,
                "weights": None if even is None else Weights(even, unit=unit, on_exhausted="drop"),
                "ranks": dataclasses.replace(value_in(self._arguments, Ranks), lanes=lanes),
            }
        )

    @property
    def step(self) -> int:
        """The number of tables so far, those before a resume included."""
        return _step_of(self._state)

    def stats(self) -> StreamStats:
        """The counts of the tables so far, those before a resume included, and the waiting time of this process.

        Returns:
            The counts; all are zero before the first table.
        """
        waited = self._waited
        waiting = 0 if self._tables is None else self._tables.waiting
        if self._state is None:
            return StreamStats(0, 0, 0, 0.0, {}, {}, waited, waiting, 0.0, 0)
        state = loaded(self._state)
        counts: Any = state["counts"]  # type: ignore[explicit-any]  # as the core writes it
        rows, tokens = counts["rows"], counts["kept"]["tokens"]
        packed = {name: share["tokens"] for name, share in counts.get("shares", {}).items()}
        whole = sum(packed.values())
        return StreamStats(
            step=self.step,
            rows=rows,
            tokens=tokens,
            fill=tokens / (rows * self._arguments["max_length"]) if rows else 0.0,
            shares={name: part / whole for name, part in packed.items()} if whole else {},
            dropped={reason: count["documents"] for reason, count in counts["dropped"].items()},
            wait_seconds=waited,
            queue_depth=waiting,
            tokens_per_second=self._rate(tokens),
            padding=counts.get("padded", 0),
        )

    def arguments(self) -> dict[str, Any]:  # type: ignore[explicit-any]  # as `fastpack.stream` takes them
        """The arguments of the stream, the defaults included."""
        return {name: value for name, value in self._arguments.items() if name in OPTIONS}

    def index(self) -> StreamEstimate:
        """Counts the rows of each lane by reading all of the input once, and keeps their number in `cache_dir`.

        Several ranks of a finite stream need the number to end at the same step. Where it is kept already, nothing is read.

        Returns:
            The size of an epoch, counted.

        Raises:
            OptionError: The stream has no `cache_dir`, or no end.
            FastpackError: The data cannot be read or packed.
        """
        if self._arguments["cache_dir"] is None:
            message = "must be given, as the folder for the number of rows"
            raise OptionError(message, "cache_dir")
        return self._counted()

    def estimate(self, *, sample: int = 2000) -> StreamEstimate:
        """Tells the rows, tokens and steps of an epoch, as schedules of learning rates need them.

        They are counted if the stream has a `cache_dir` and an end. Otherwise a sample of the records is read.

        Args:
            sample: The number of records to read, of each weighted source.

        Returns:
            The size of an epoch. With `weights`, an epoch ends where `on_exhausted` says.

        Raises:
            OptionError: The weights change during the run; or an option leaves records out, and the rows are not counted.
            FastpackError: The data cannot be read.
        """
        if self._arguments["cache_dir"] is not None and self._arguments["epochs"] is not None:
            return self._counted()
        rows, tokens = sampled_epoch(self._arguments, sample)
        per_step = self._arguments["batch_size"] * self._parts.world_size
        return StreamEstimate(rows, tokens, -(-rows // per_step), counted=False)

    def _counted(self) -> StreamEstimate:
        """The size of an epoch by the count of the run."""
        rows, tokens, steps = self._parts.count()
        self.is_counted = True
        epochs = self._arguments["epochs"]
        return StreamEstimate(
            -(-sum(rows) // epochs), -(-tokens // epochs), -(-steps // epochs), counted=True
        )

    def _rate(self, tokens: int) -> float:
        """The tokens that this process took in a second, if it took the last `tokens` of them."""
        if self._begun is None:
            return 0.0
        since, before = self._begun
        return max(tokens - before, 0) / max(time.monotonic() - since, 1e-9)

    @property
    def report(self) -> Report | None:
        """The report of the whole stream; `None` before its end."""
        return None if self._tables is None else self._tables.report

    def close(self) -> None:
        """Stops the threads of the stream and waits for their end. It gives no table afterwards."""
        self._closed = True
        tables = self._tables
        if tables is not None:
            tables.close()

    def __getstate__(self) -> dict[str, object]:
        """The pickled values: the arguments, and the loaded state."""
        if self._tables is not None and not self._ended:
            message = "this stream has started, and its threads cannot be pickled; pickle its `state_dict()`"
            raise FastpackError(message)
        return {
            "given": self._arguments,
            "state": self._state,
            "strict": self._strict,
            "is_counted": self.is_counted,
        }

    def __setstate__(self, pickled: dict[str, Any]) -> None:  # type: ignore[explicit-any]  # what was pickled
        """Makes a stream from the pickled values."""
        self._arguments = pickled["given"]
        self.is_counted = pickled["is_counted"]
        self._prepare(pickled["state"], strict=pickled["strict"])
