"""The process that renders a chat template through `transformers`, for `template_engine="python"`.

It reads lines of JSON and answers each with one. The first holds the template; each further one what a
conversation is to be rendered with.
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

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from fastpack import _render; _render.main()"
)
"""What the process runs: it finds the modules that this one finds."""

_GENERATION = re.compile(r"\{\%-?\s*generation\s*-?\%\}")
"""What `transformers` takes for the mark of a template that tells what the assistant wrote."""


class _Question(TypedDict):
    """What a conversation is rendered with."""

    messages: list[dict[str, object]]
    tools: list[dict[str, object]] | None
    documents: list[dict[str, object]] | None
    add_generation_prompt: bool
    variables: dict[str, object]


_Answer: TypeAlias = tuple[str, list[list[int]]]
"""A text, and the bytes of it that the assistant wrote."""


def command() -> list[str]:
    """The command that starts the process."""
    return [sys.executable, "-c", _START, json.dumps(sys.path)]


def main() -> None:
    """Answers until there are no more questions. Ctrl-C is for the process that asks."""
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


def _answer(render: Callable[[_Question], _Answer], question: _Question) -> object:
    try:
        return {"rendered": render(question)}
    except Exception as failed:  # noqa: BLE001  a template may raise whatever it likes
        return {"failed": f"{type(failed).__name__}: {failed}"}


def _renderer(source: str, now: int) -> Callable[[_Question], _Answer]:
    """What renders the template, for which it is so many microseconds after 1970 on the caller's clock."""
    utils = import_module("transformers.utils.chat_template_utils")
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc).replace(tzinfo=None) + timedelta(microseconds=now)
    utils._compile_jinja_template(source).environment.globals["strftime_now"] = moment.strftime  # noqa: SLF001
    marks = _GENERATION.search(source) is not None

    def render(question: _Question) -> _Answer:
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
    """Where the characters stand in UTF-8."""
    before = len(text[:start].encode())
    return [before, before + len(text[start:end].encode())]
