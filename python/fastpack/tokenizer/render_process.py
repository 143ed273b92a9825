"""The process that renders a chat template through `transformers`, for `ChatTemplate(engine="python")`.

It reads lines of JSON and answers each with a line. The first line holds the template; each further one holds the
inputs of a conversation.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["command", "main"]

_START = "import sys; sys.path[:] = sys.argv[1:]; from fastpack.tokenizer import render_process; render_process.main()"
"""The Python code of the process. It has the module search path of this process.

Nothing is imported before that is set but `sys`, which is no file: until then the present folder comes first, and a
`json.py` in it would run.
"""

_GENERATION = re.compile(r"\{\%-?\s*generation\s*-?\%\}")
"""The mark by which `transformers` recognises a template that marks the assistant's text."""


class _RenderRequest(TypedDict):
    """The inputs of a conversation."""

    messages: list[dict[str, object]]
    tools: list[dict[str, object]] | None
    documents: list[dict[str, object]] | None
    add_generation_prompt: bool
    variables: dict[str, object]


_Answer: TypeAlias = tuple[str, list[list[int]]]
"""A rendered text, and the byte ranges that the assistant wrote."""


def command() -> list[str]:
    """The command that starts the process."""
    return [sys.executable, "-c", _START, *sys.path]


def main() -> None:
    """Renders conversations until its input ends. It ignores Ctrl-C, which the calling process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out, sys.stdout = sys.stdout, sys.stderr
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for answer in _answers(sys.stdin):
        out.write(json.dumps(answer) + "\n")
        out.flush()


def _answers(lines: Iterable[str]) -> Iterator[object]:
    questions = iter(lines)
    setup = json.loads(next(questions))
    try:
        render = _renderer(setup["template"], setup["now"])
    except ImportError as missing:
        yield {"missing": str(missing)}
        return
    except Exception as refused:  # noqa: BLE001  whatever a template fails with
        yield {"refused": [getattr(refused, "lineno", None) or 1, f"{type(refused).__name__}: {refused}"]}
        return
    yield "ready"
    for question in questions:
        yield _answer(render, json.loads(question))


def _answer(render: Callable[[_RenderRequest], _Answer], question: _RenderRequest) -> object:
    try:
        return {"rendered": render(question)}
    except Exception as failed:  # noqa: BLE001  a template may raise whatever it likes
        return {"failed": f"{type(failed).__name__}: {failed}"}


def _renderer(source: str, now: int) -> Callable[[_RenderRequest], _Answer]:
    """Makes a function that renders the template; `now` is the caller's local time, in microseconds since 1970."""
    utils = import_module("transformers.utils.chat_template_utils")
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc).replace(tzinfo=None) + timedelta(microseconds=now)
    utils._compile_jinja_template(source).environment.globals["strftime_now"] = moment.strftime  # noqa: SLF001
    marks = _GENERATION.search(source) is not None

    def render(question: _RenderRequest) -> _Answer:
        rendered, spans = utils.render_jinja_template(
            conversations=[question["messages"]],
            tools=question["tools"],
            documents=question["documents"],
            chat_template=source,
            return_assistant_tokens_mask=marks,
            add_generation_prompt=question["add_generation_prompt"],
            **question["variables"],
        )
        text: str = rendered[0]
        return text, [_bytes(text, start, end) for start, end in (spans[0] if marks else [])]

    return render


def _bytes(text: str, start: int, end: int) -> list[int]:
    """Converts a range of characters to a range of UTF-8 bytes."""
    before = len(text[:start].encode())
    return [before, before + len(text[start:end].encode())]
