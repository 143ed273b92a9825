"""The pages that `print` shows of a report, a scan, and the state of a job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from fastpack.arguments.plural import counted
from fastpack.report.display.terminal import page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastpack.dataset.status import JobStatus
    from fastpack.report.report import Report
    from fastpack.report.report_facts import SplitConversations
    from fastpack.report.scan import Lost, ScanReport

__all__ = [
    "labelled",
    "report_page",
    "scan_page",
    "shown_lengths",
    "split_sentence",
    "stage_lines",
    "status_page",
]

_Item = TypeVar("_Item")

_QUANTILES: Final = ("min", "p50", "p90", "p99", "max")
"""The quantiles of document lengths that a page shows, in this order."""

_SHOWN_SECONDS: Final = 0.005
"""Stages that took less than this are not printed, in seconds."""

_SHOWN_CLASSES: Final = 20
"""The most classes that a printed report names."""

_SHOWN_PLACES: Final = 1_000
"""The most records that a printed scan names for each reason."""

_ALIKE_PLACES: Final = 20
"""The most records of one file with the same message that a printed scan names."""


def report_page(report: Report) -> str:
    """The page of a report."""
    return page(_report_lines(report))


def stage_lines(report: Report) -> str:
    """The time of each stage of a run, summed over its threads."""
    return page(_stages(report))


def scan_page(scan: ScanReport) -> str:
    """The page of a scan."""
    return page(_scan_lines(scan))


def status_page(status: JobStatus) -> str:
    """The page of the state of a job."""
    return page(_status_lines(status))


def labelled(label: str, items: Iterable[_Item]) -> Iterator[tuple[str, _Item]]:
    """Each item, the first with the label."""
    for number, item in enumerate(items):
        yield ("" if number else label), item


def shown_lengths(lengths: dict[str, float]) -> str:
    """The quantiles of lengths, on one line."""
    return ", ".join(f"{name} {lengths[name]:,.0f}" for name in _QUANTILES if name in lengths)


def _status_lines(status: JobStatus) -> Iterator[tuple[str, str]]:
    begun = f", begun {status.started}" if status.started else ""
    yield "job", f"{status.state}{begun}"
    yield "inputs", f"{counted(status.files, 'file')}, {status.bytes / 1e6:,.1f} MB"
    if status.documents is not None:
        share = "" if status.share is None else f", at least {status.share:.0%} of the inputs"
        written = counted(status.shards or 0, "shard")
        yield "done", f"{counted(status.documents, 'document')} tokenized{share}, {written} written"
        if status.state == "stopped":
            yield "", "the same call resumes it"
    for label, step in labelled("groups", status.steps):
        states = ("running", "stopped", "failed", "waiting")
        others = [f"{number:,} {state}" for state in states if (number := getattr(step, state))]
        yield label, ", ".join([f"{step.step}: {step.done:,} of {step.groups:,} done", *others])
    for label, (group, error) in labelled("failed", status.failed.items()):
        yield label, f"group {group}: {error}"


def _picture_lines(facts: Report | ScanReport, tokens: int) -> Iterator[tuple[str, str]]:
    """The pictures, and their part of the `tokens` that were read."""
    if facts.pictures:
        share = facts.picture_tokens / max(tokens, 1)
        yield "pictures", f"{facts.pictures:,} of {facts.picture_tokens:,} tokens, {share:.1%} of those read"
        mean, most = facts.picture_pixels / 1e6, facts.most_picture_pixels / 1e6
        yield "", f"{mean:,.2f} megapixels on average, {most:,.2f} at most"


def _report_lines(report: Report) -> Iterator[tuple[str, str]]:
    done = ["finished here before; nothing was packed"] if report.finished_before else []
    yield from labelled("job", done)
    yield from labelled("inputs", (it.named for it in report.inputs))
    if report.appended_files is not None:
        yield "appended", counted(report.appended_files, "file")
    yield "documents", f"{report.documents.read:,} read, {report.documents.kept:,} kept"
    yield "tokens", f"{report.tokens.read:,} read, {report.tokens.kept:,} kept"
    for label, (reason, lost) in labelled("dropped", report.dropped.items()):
        yield label, f"{counted(lost.documents, 'document')}, {counted(lost.tokens, 'token')}: {reason}"
    yield from _cut_and_repeated(report)
    for label, place in labelled("places", report.places):
        yield label, f"{place.path}:{place.line}: {place.reason}: {place.message}"
    yield from _left_out(report)
    yield from _split(report, report.tokens.read)
    for label, (name, share) in labelled("shares", report.shares.items()):
        yield (
            label,
            (
                f"{name}: {share.asked:.2%} asked, {share.got:.2%} drawn, {counted(share.drawn.documents, 'document')}, "
                f"{counted(share.drawn.tokens, 'token')}"
            ),
        )
    purpose = "" if report.objective == "causal" else f", for {report.objective}"
    yield "rows", f"{report.rows:,} of {report.row_length} tokens, by {report.strategy}{purpose}"
    yield "", f"{report.documents_per_row:.2f} documents a row"
    if report.classes:
        yield "classes", _listed(report.classes)
    for label, (name, split) in labelled("splits", report.splits.items()):
        yield (
            label,
            f"{name}: {counted(split.documents.kept, 'document')} in {counted(split.rows, 'row')}, {split.fill:.2%} full",
        )
    limits = {"pictures": report.picture_fill, "tokens of pictures": report.picture_token_fill}
    of_pictures = "".join(f", {name} {fill:.2%}" for name, fill in limits.items() if fill is not None)
    yield (
        "fill",
        f"{report.fill:.2%}{of_pictures}; no packing needs fewer than {counted(report.lower_bound, 'row')}",
    )
    straddling = f"; {report.straddling_tokens:,} straddle a boundary" if report.straddling_tokens else ""
    yield "trained", f"{report.trained_tokens:,} tokens, {report.trained_share:.1%} of those kept{straddling}"
    yield from _picture_lines(report, report.tokens.read)
    lengths = shown_lengths(report.lengths)
    if lengths:
        yield "lengths", lengths
    steps = [f"{count:,} at {rows} rows" for rows, count in report.steps_per_epoch.items()]
    if steps:
        yield "steps", f"{', '.join(steps)} a step, for one epoch"
    for label, engine, reason in (
        ("engine", report.engine, report.engine_reason),
        ("template", report.template_engine, report.template_engine_reason),
    ):
        yield from labelled(label, [f"{engine}: {reason}" if reason else engine] if engine else [])
    yield from _times(report)
    yield from labelled("warnings", report.warnings)


def _listed(classes: list[str]) -> str:
    """The first names of classes with their numbers, and how many there are in all."""
    first = ", ".join(f"{number} {name}" for number, name in enumerate(classes[:_SHOWN_CLASSES]))
    more = len(classes) - _SHOWN_CLASSES
    return f"{first} and {more:,} more" if more > 0 else first


def _left_out(report: Report | ScanReport) -> Iterator[tuple[str, str]]:
    for label, (field, noted) in labelled("left out", report.left_out.items()):
        yield label, f"{field} of {counted(noted.records, 'record')}"


def split_sentence(split: SplitConversations, read: int) -> str:
    """The cost of split conversations among `read` tokens, and the documents of other choices of `turns`."""
    more = max(split.tokens - split.whole_tokens, 0)
    return (
        f"{counted(split.records, 'conversation')} as {counted(split.documents, 'document')} of "
        f"{counted(split.tokens, 'token')}, {more:,} more than by `whole`, {more / max(read - more, 1):.0%} of all; `whole` "
        f"gives {split.whole_tokens:,} and trains {split.rewritten_turns:,} of {counted(split.turns, 'turn')} in a form that "
        f"the model never writes, `last` gives {split.last_tokens:,} and trains {split.records:,} of them"
    )


def _split(report: Report | ScanReport, read: int) -> Iterator[tuple[str, str]]:
    if report.split_conversations.records:
        yield "turns", split_sentence(report.split_conversations, read)


def _choices(scan: ScanReport) -> Iterator[tuple[str, str]]:
    for label, (turns, choice) in labelled("by turns", scan.turn_choices.items()):
        rewritten = choice.rewritten_turns
        wrong = f", {counted(rewritten, 'turn')} as the model never writes" if rewritten else ""
        yield (
            label,
            (
                f"{turns}: {counted(choice.documents, 'document')} of {counted(choice.tokens, 'token')}, "
                f"{choice.trained_tokens:,} trained{wrong}"
            ),
        )


def _cut_and_repeated(report: Report) -> Iterator[tuple[str, str]]:
    if report.truncated.documents:
        yield (
            "cut",
            f"{counted(report.truncated.documents, 'document')}, by {counted(report.truncated.tokens, 'token')}",
        )
    if report.repeated.documents:
        yield (
            "repeated",
            f"{counted(report.repeated.documents, 'document')}, {counted(report.repeated.tokens, 'token')}",
        )


def _times(report: Report) -> Iterator[tuple[str, str]]:
    if report.seconds is not None:
        yield "time", f"{report.seconds:.2f} s{_speed(report, report.seconds)}"
    compiled, interpreted = report.compiled_conversations, report.interpreted_conversations
    if compiled:
        all_of_them = f"{compiled + (interpreted or 0):,} conversations"
        yield "", f"{compiled:,} of {all_of_them} were put into text by compiled programs"
    if report.resumed_documents:
        yield "", f"{report.resumed_documents:,} documents were tokenized before, by a run that was stopped"


def _stages(report: Report) -> Iterator[tuple[str, str]]:
    shown = [(stage, time) for stage, time in report.stages.items() if time.wall >= _SHOWN_SECONDS]
    for label, (stage, time) in labelled("stages", shown):
        yield label, f"{stage} {time.wall:.2f} s, {time.cpu:.2f} s of CPU{_speed(report, time.wall)}"


def _speed(report: Report, seconds: float) -> str:
    return f", {report.tokens.read / seconds:,.0f} tokens/s" if seconds else ""


def _lost_places(lost: Lost) -> Iterator[tuple[str, str]]:
    """The places of lost records. Of those of a file that say the same, the first few stand for all."""
    alike = Counter((place.path, place.message) for place in lost.places)
    seen = Counter[tuple[str, str]]()
    for place in lost.places[:_SHOWN_PLACES]:
        fault = (place.path, place.message)
        seen[fault] += 1
        if seen[fault] > _ALIKE_PLACES:
            continue
        where = f"{place.path}:{place.line}" if place.line else place.path
        yield "", f"  {where}: {place.message}"
        if seen[fault] == _ALIKE_PLACES < alike[fault]:
            yield (
                "",
                f"  and {alike[fault] - _ALIKE_PLACES:,} more of {place.path} with the same fault, which `lost` names",
            )
    if len(lost.places) > _SHOWN_PLACES:
        left = len(lost.places) - _SHOWN_PLACES
        yield "", f"  and {lost.documents - _SHOWN_PLACES:,} more, of which `lost` names {left:,}"


def _scan_lines(scan: ScanReport) -> Iterator[tuple[str, str]]:
    yield from labelled("inputs", (it.named for it in scan.inputs))
    sample = scan.sample
    if sample is not None:
        yield (
            "estimated",
            f"from {counted(sample.records, 'record')}, {sample.share:.2%} of the bytes: all that is said of documents, tokens and rows",
        )
    yield "documents", f"{scan.read.documents:,} read, {scan.documents:,} kept"
    for label, (reason, lost) in labelled("lost", scan.lost.items()):
        yield label, f"{counted(lost.documents, 'record')}, {counted(lost.tokens, 'token')}: {reason}"
        yield from _lost_places(lost)
    yield from _picture_lines(scan, scan.read.tokens)
    yield from _left_out(scan)
    yield from _split(scan, scan.read.tokens)
    yield from _choices(scan)
    yield (
        "tokens",
        f"{scan.read.tokens:,}, {scan.trained_share:.1%} trained; a document: {shown_lengths(scan.lengths)}",
    )
    for label, fit in labelled("rows", scan.fits):
        if not scan.documents:
            yield label, f"none of {fit.max_length:,} tokens: no record becomes a document"
            continue
        share = f"{fit.lost_tokens / max(scan.read.tokens, 1):.2%} of the tokens lost"
        reasons = [f"{count.documents:,} {reason}" for reason, count in fit.dropped.items()]
        if fit.truncated.documents:
            reasons.append(f"{fit.truncated.documents:,} truncated")
        why = f" ({', '.join(reasons)})" if reasons else ""
        yield label, f"{fit.rows:,} of {fit.max_length:,} tokens, fill {fit.fill:.2%}, {share}{why}"
    if scan.template:
        yield "template", scan.template
    yield "engine", scan.engine
    packing = (
        f"about {scan.packing_seconds:,.2f} s" if sample is None else f"about {sample.seconds:,.2f} s for all"
    )
    yield (
        "time",
        f"{scan.seconds:.2f} s on {counted(scan.threads, 'thread')}, {scan.megabytes_per_second:,.1f} MB/s; packing takes {packing}",
    )
    yield from labelled("warnings", scan.warnings)
