"""Writes what follows from the table of options: the public functions, their overloads, and `docs/options.md`.

`make signatures` writes; with `--check` nothing is written, and a file that would change is an error.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.options import GROUPS, options_of
from fastpack.options.calls import CALLS, Call, Overload
from fastpack.options.option import REQUIRED, Option
from fastpack.options.value import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).parent.parent
PLACE: Final = ROOT / "python/fastpack/api/calls"
PAGE: Final = ROOT / "docs/options.md"
HEAD: Final = '"""{about}\n\nWritten by `make signatures` from `fastpack/options/`: change that, not this.\n"""\n\nfrom __future__ import annotations\n'
WIDTH: Final = 110

MODULES: Final = {
    "collections.abc": ("Iterable", "Mapping", "Sequence"),
    "datetime": ("datetime",),
    "fastpack.tokenizer.arguments": ("TokenizerArgument",),
    "fastpack.report.scan": ("ScanReport",),
    "fastpack.options.train_on": ("TrainOn",),
    "fastpack.streaming.stream": ("PackStream",),
    "fastpack.options.function": ("Function",),
    "fastpack.options.objective": ("Objective",),
    "fastpack.report.report": ("Report",),
    "fastpack.tokenizer.tokenizer": ("Tokenizer",),
    "fastpack.options.packing": (
        "Balanced",
        "BestFit",
        "Concat",
        "Packing",
        "Sequential",
        "Truncate",
        "Unpacked",
    ),
    "fastpack.options.rows": ("Padding",),
    "fastpack.options.output": ("Exists", "Format", "Groups"),
    "fastpack.options.records": ("Reading",),
    "fastpack.options.storage": ("Storage",),
    "fastpack.options.tokens": ("ChatTemplate", "SpecialTokens"),
    "fastpack.options.work": ("Ranks", "Select", "Weights"),
}
"""The modules of the names of types; all others are in `fastpack.types`."""

DICTS: Final = {
    "RecordArguments": ("How records become rows; each as in `pack_records`.", "pack_records", "output"),
    "FileArguments": ("How files become rows; each as in `pack_files`.", "pack_files", ""),
    "OutputArguments": (
        "How records become rows in a folder; each as in `pack_records`.",
        "pack_records",
        "",
    ),
}
"""The `TypedDict`s of overloads: what they are, the call whose options they hold, and the group that they leave out."""


def main() -> int:
    """Writes or checks all files, and returns the exit code."""
    wanted = {PLACE / f"{name}.py": function(name, call) for name, call in CALLS.items()}
    wanted[PLACE / "__init__.py"] = package()
    wanted[PLACE / "arguments.py"] = arguments()
    wanted[PAGE] = page()
    checking = "--check" in sys.argv[1:]
    changed = []
    for path, text in wanted.items():
        made = formatted(text) if path.suffix == ".py" else text
        if not path.exists() or path.read_text(encoding="utf-8") != made:
            changed.append(path.relative_to(ROOT))
            if not checking:
                path.parent.mkdir(exist_ok=True)
                path.write_text(made, encoding="utf-8")
    if checking and changed:
        sys.stderr.write(
            f"written by `make signatures`, but not up to date: {', '.join(map(str, changed))}\n"
        )
        return 1
    return 0


def formatted(text: str) -> str:
    """Python as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(PLACE / "made.py"), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


def function(name: str, call: Call) -> str:
    """The module of a public function."""
    options = options_of(name)
    required = [option for option in options if option.name in call.positional]
    required.sort(key=lambda option: call.positional.index(option.name))
    rest = [option for option in options if option.name not in call.positional]
    first = [f"{call.own[0]}: {call.own[1]}"] if call.own else []
    positional = [*first, *map(parameter, required)]
    texts = [overload(name, call.returns, positional, rest, way) for way in call.overloads]
    parameters = ", ".join([*positional, "*", *map(parameter, rest)])
    passed = [*([call.own[0]] if call.own else []), *(option.name for option in [*required, *rest])]
    given = ", ".join(f'"{option}": {option}' for option in passed)
    texts.append(
        f"@suggesting\ndef {name}({parameters}) -> {call.returns}:\n"
        f"{textwrap.indent(docstring(name, call), '    ')}\n    return run({{{given}}})\n"
    )
    body = "\n".join(texts)
    typing = ["TYPE_CHECKING", *(["overload"] if call.overloads else [])]
    types = [*(option.type for option in options), call.returns, *(call.own[1:2] if call.own else ())]
    dicts = sorted({way.rest for way in call.overloads})
    imports = type_imports([*types, *(way.returns for way in call.overloads)])
    if dicts:
        imports += f"    from fastpack.api.calls.arguments import {', '.join(dicts)}\n"
        imports += "    from typing_extensions import Unpack\n"
    return (
        HEAD.format(about=f"`fastpack.{name}`.")
        + f"\nfrom typing import {', '.join(typing)}\n\nfrom fastpack.api.run import {name} as run\n"
        + "from fastpack.options.mistakes.hints import suggesting\n"
        + f'\nif TYPE_CHECKING:\n{imports}\n__all__ = ["{name}"]\n\n\n{body}'
    )


def overload(name: str, _returns: str, positional: list[str], rest: list[Option], way: Overload) -> str:
    """A way to call it that decides what it returns."""
    required = [parameter(option) for option in rest if option.default is REQUIRED]
    parameters = ", ".join([*positional, "*", *required, *way.fixed, f"**options: Unpack[{way.rest}]"])
    return f"@overload\ndef {name}({parameters}) -> {way.returns}: ..."


def parameter(option: Option) -> str:
    """An option in a signature."""
    default = "" if option.default is REQUIRED else f" = {option.default!r}"
    return f"{option.name}: {option.type}{default}"


def type_imports(types: Iterable[str]) -> str:
    """The imports that types need, inside `if TYPE_CHECKING`."""
    names = {name for text in types for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)}
    names -= {"None", "int", "str", "bool", "float", "tuple", "list", "dict", "object"}
    lines = []
    for native in {"pa": "import pyarrow as pa", "_fastpack": "from fastpack import _fastpack"}.items():
        if native[0] in names:
            names.discard(native[0])
            lines.append(native[1])
    known = {name: module for module, found in MODULES.items() for name in found}
    modules: dict[str, list[str]] = {}
    for name in sorted(names):
        modules.setdefault(known.get(name, "fastpack.types"), []).append(name)
    lines += [f"from {module} import {', '.join(found)}" for module, found in modules.items()]
    return "".join(f"    {line}\n" for line in lines)


def docstring(name: str, call: Call) -> str:
    """The text of `help`."""
    parts = [call.about, "Args:"]
    own = [(call.own[0], call.own[2])] if call.own else []
    listed = [*own, *((option.name, option.doc) for option in options_of(name))]
    order = [*(it[0] for it in own), *call.positional]
    listed.sort(key=lambda it: order.index(it[0]) if it[0] in order else len(order))
    parts[-1] += "".join(f"\n{entry(option, doc)}" for option, doc in listed)
    parts.append(f"Returns:\n{textwrap.indent(call.result, '    ')}")
    raised = "\n".join(entry(*error.split(": ", 1)) for error in call.raises)
    parts.append(f"Raises:\n{raised}")
    parts.append(f"Examples:\n{textwrap.indent(call.example, '    ')}")
    text = "\n\n".join(parts)
    marks = 'r"""' if "\\" in text else '"""'
    return f'{marks}{text}\n"""'


def entry(name: str, doc: str) -> str:
    """A line of a list in a docstring, and those below it."""
    return textwrap.fill(
        f"{name}: {' '.join(doc.split())}",
        WIDTH,
        initial_indent=" " * 4,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )


def package() -> str:
    """The module that names all functions."""
    imports = "".join(f"from fastpack.api.calls.{name} import {name}\n" for name in CALLS)
    names = ", ".join(f'"{name}"' for name in sorted(CALLS))
    return HEAD.format(about="The public functions.") + f"\n{imports}\n__all__ = [{names}]\n"


def arguments() -> str:
    """The `TypedDict`s of overloads."""
    texts = []
    types = []
    for name, (about, call, without) in DICTS.items():
        fixed = {
            text.split(":")[0] for way in CALLS[call].overloads if way.rest == name for text in way.fixed
        }
        held = [
            option
            for option in options_of(call)
            if option.name not in {*fixed, *CALLS[call].positional}
            and option.default is not REQUIRED
            and (not without or option.group != without)
        ]
        types += [option.type for option in held]
        fields = "".join(f"    {option.name}: {option.type}\n" for option in held)
        texts.append(f'class {name}(TypedDict, total=False):\n    """{about}"""\n\n{fields}')
    names = ", ".join(f'"{name}"' for name in sorted(DICTS))
    return (
        HEAD.format(about="The keyword arguments of overloads, for the types of these alone.")
        + f"\nfrom typing import TYPE_CHECKING, TypedDict\n\nif TYPE_CHECKING:\n{type_imports(types)}\n"
        + f"__all__ = [{names}]\n\n\n"
        + "\n\n".join(texts)
    )


def page() -> str:
    """The page of all options."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Options"
    yield ""
    yield "Every option of every function, with its default. `pack_*` is `pack_files`, `pack_dir`, `pack_table` and `pack_records`."
    yield "On the command line an option has dashes: `--max-length 4096`; `fastpack pack --help objective` shows the flags of a topic."
    yield "`help(fastpack.pack_files)` shows the options of one function,"
    yield "with types, and [Which call do I need?](start/which-call.md) the functions."
    yield ""
    yield "## A job as a file"
    yield ""
    yield "A TOML file holds any of the options of `pack_dir`:"
    yield ""
    yield '```toml title="recipe.toml"'
    yield 'files = ["examples/*.jsonl"]'
    yield 'output = "packed"'
    yield 'tokenizer = "examples/tokenizer"'
    yield "max_length = 512"
    yield 'filter = "filters.py:good"'
    yield "```"
    yield ""
    yield '```python title="filters.py"'
    yield "def good(batch):"
    yield "    return [True] * batch.num_rows"
    yield "```"
    yield ""
    yield "```console"
    yield "$ fastpack pack --config recipe.toml"
    yield "$ fastpack pack --like packed/ -o shorter/ -m 256 --filter filters.py:good"
    yield "```"
    yield ""
    yield 'The first line packs the file, and so does `fastpack.pack_dir(**fastpack.load_config("recipe.toml"))`. Flags win over the file. Paths are'
    yield "relative to the file. A key that is no option is refused, and so is an access token."
    yield ""
    yield "The second line repeats a finished job from its manifest, with the changes of the command line. What a manifest cannot hold must be"
    yield "given again, such as a live tokenizer or a function: a folder may be from others, so its manifest loads no code."
    for title, options in GROUPS.items():
        yield ""
        yield f"## {title[0].upper()}{title[1:]}"
        yield ""
        yield "| option | default | taken by | |"
        yield "|---|---|---|---|"
        for option in options:
            default = (
                "must be given" if option.default is REQUIRED else f"`{option.default!r}`".replace("'", '"')
            )
            short = option.flag.spelling.split()[0] if option.flag else ""
            flag = f"<br>`{short}`" if re.fullmatch("-[a-z]", short) else ""
            about = " ".join(
                [
                    option.doc,
                    *(
                        f"In `{call}`: {differs.doc}"
                        for call, differs in option.differs.items()
                        if differs.doc
                    ),
                ]
            )
            yield f"| `{option.name}`{flag} | {default} | {_taken_by(option)} | {_cell(about)} |"
        for option in options:
            yield from _values(option)


_EXAMPLES: Final = {
    "storage": (
        '`storage=Storage(revision="main", block_cache="20GB")` in Python, `--storage.revision main --storage.block-cache 20GB` on '
        'the command line, and in TOML `storage = {revision = "main", block_cache = "20GB"}`. No file holds a token or options '
        "of remote storage."
    ),
    "reading": (
        '`reading=Reading("question_answer", fields={"question": "query"})` in Python, `--reading question_answer '
        '--reading.fields question=query` on the command line, and in TOML `reading = {shape = "question_answer", fields = '
        '{question = "query"}}`. `reading="text"` is `Reading("text")`.'
    ),
    "format": (
        '`format=Format("parquet", compression="snappy")` in Python, `--format parquet --format.compression snappy` on the '
        'command line, and in TOML `format = {name = "parquet", compression = "snappy"}`. `format="parquet"` is `Format("parquet")`.'
    ),
    "groups": (
        '`groups=Groups("4GB", rank="auto", world_size="auto")` in Python, `--groups 4GB --groups.rank auto --groups.world-size '
        'auto` on the command line, and in TOML `groups = {size = "4GB"}`. `groups="4GB"` is `Groups("4GB")`.'
    ),
    "exists": (
        '`exists=Exists("overwrite", wait=False)` in Python, `--exists overwrite --no-exists.wait` on the command line. '
        '`exists="overwrite"` is `Exists("overwrite")`.'
    ),
    "select": (
        '`select=Select({"lang": "en"}, take=1000)` in Python, and `--select \'{"lang": "en"}\' --select.take 1000` on the command '
        'line. `select={"lang": "en"}` is `Select({"lang": "en"})`.'
    ),
    "weights": (
        '`weights=Weights({"web": 3, "code": 1}, unit="documents")` in Python, and `--weights \'{"web": 3, "code": 1}\' '
        '--weights.unit documents` on the command line. `weights={"web": 3}` is `Weights({"web": 3})`.'
    ),
    "ranks": (
        "`ranks=Ranks(rank=0, world_size=8)` in Python, `--ranks.rank 0 --ranks.world-size 8` on the command line."
    ),
    "special_tokens": (
        "`special_tokens=SpecialTokens(eos=True)` in Python, `--special-tokens.eos yes` on the command line, and in TOML "
        "`special_tokens = {eos = true}`."
    ),
    "chat_template": (
        '`chat_template=ChatTemplate("chat.jinja", engine="python")` in Python, `--chat-template chat.jinja '
        '--chat-template.engine python` on the command line, and in TOML `chat_template = {source = "chat.jinja", engine = '
        '"python"}`. `chat_template="chat.jinja"` is `ChatTemplate("chat.jinja")`.'
    ),
    "strategy": (
        "`strategy=Concat(drop_last=True)` in Python, `--strategy concat --strategy.drop-last` on the command line, and in TOML "
        '`strategy = {kind = "concat", drop_last = true}`. A word is the value with its defaults.'
    ),
    "overlong": (
        '`overlong=Truncate(side="left")` in Python, `--overlong truncate --overlong.side left` on the command line, and in '
        'TOML `overlong = {kind = "truncate", side = "left"}`. The other words have no options.'
    ),
    "order": (
        "`order=Balanced(8)` in Python, `--order balanced --order.ranks 8` on the command line, and in TOML "
        '`order = {kind = "balanced", ranks = 8}`. The other words have no options.'
    ),
    "padding": (
        '`padding=Padding(128, side="left")` in Python, `--padding 128 --padding.side left` on the command line, and in TOML '
        '`padding = {to = 128, side = "left"}`. `padding=128` is `padding=Padding(128)`.'
    ),
    "objective": (
        "`objective=MaskedLM(probability=0.2)` in Python, `--objective mlm --objective.probability 0.2` on the command line, "
        'and in TOML `[objective]` with `kind = "mlm"` and `probability = 0.2`. A word is the value with its defaults.'
    ),
    "filter": (
        '`filter=Function(good, fingerprint="v1")` in Python, `--filter filters.py:good --filter.fingerprint v1` on the command '
        'line, and in TOML `filter = {function = "filters.py:good", fingerprint = "v1"}`. So has `map`.'
    ),
}
"""How the values of an option are written; those of `map` are those of `filter`."""


def _values(option: Option) -> Iterator[str]:
    """The options in the values of an option."""
    if option.name not in _EXAMPLES:
        return
    yield ""
    yield f"A value of `{option.name}` has options of its own: {_EXAMPLES[option.name]}"
    yield ""
    yield "| value | word | its option | default | |"
    yield "|---|---|---|---|---|"
    for word, kind in option.kinds.items():
        first = f"`{kind.__name__}` | `{word}`"
        for field in fields_of([kind]):
            is_missing = field.default is dataclasses.MISSING
            default = "must be given" if is_missing else f"`{field.default!r}`".replace("'", '"')
            yield f"| {first} | `{field.name}` | {default} | {_cell(field.doc)} |"
            first = " | "
        if not fields_of([kind]):
            yield f"| {first} | | | |"


_PACKING: Final = ("pack_files", "pack_dir", "pack_table", "pack_records")


def _taken_by(option: Option) -> str:
    """The functions that take an option; the four that pack have one name."""
    names = [name for name in CALLS if name in option.calls]
    if set(_PACKING) <= set(names):
        names = ["pack_*", *(name for name in names if name not in _PACKING)]
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """A text as the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
