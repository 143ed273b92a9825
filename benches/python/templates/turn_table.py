"""Writes the table of docs/how-to/turns.md: what is trained of reasoning, calls and ends by the templates of model families.

    python benches/python/templates/turn_table.py FOLDER [--print]

FOLDER holds chat templates as `NAME.jinja`, which are read beside those in TRL's wheel; the table takes the families
whose templates are there. `--print` prints the table, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastpack

if TYPE_CHECKING:
    from fastpack.types import Turns

ROOT: Final = Path(__file__).resolve().parents[3]
sys.path[:0] = [*map(str, (ROOT / "tests" / "python").glob("support/**/"))]

from template_helpers import trl_templates  # noqa: E402
from turn_conversations import TOOLS  # noqa: E402
from turn_templates import kind_of, write_folder  # noqa: E402

PAGE: Final = ROOT / "docs/how-to/turns.md"
BEGIN, END = "<!-- made by `make turns-table` -->\n", "<!-- end -->\n"

FAMILIES: Final = {
    "Apertus": "llamacpp__Apertus-8B-Instruct",
    "Apriel 1.5": "llamacpp__unsloth-Apriel-1.5",
    "Bielik 3": "llamacpp__Bielik-11B-v3.0-Instruct",
    "ChatML": "tgw__ChatML.yaml",
    "Command A": "hfjs__033_CohereLabs_c4ai-command-a-03-2025",
    "Command A Reasoning": "hfjs__039_CohereLabs_command-a-reasoning-08-2025",
    "DeepSeek R1 Distill": "llamacpp__deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "DeepSeek V3": "deepseekv3",
    "DeepSeek V3.1": "vllm__tool_chat_template_deepseekv31",
    "Gemma 3": "gemma3",
    "Gemma 4": "gemma4",
    "GLM 4.5": "glm4moe",
    "gpt-oss": "llamacpp__openai-gpt-oss-120b",
    "Granite 4.1": "llamacpp__ibm-granite-granite-4.1",
    "Hermes 2 Pro": "llamacpp__NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "Hunyuan A13B": "vllm__tool_chat_template_hunyuan_a13b",
    "Kimi K2": "llamacpp__moonshotai-Kimi-K2",
    "LFM2.5": "llamacpp__LFM2.5-8B-A1B",
    "Llama 3": "llama3",
    "Llama 3.1": "llamacpp__meta-llama-Llama-3.1-8B-Instruct",
    "Llama 3.2": "llamacpp__meta-llama-Llama-3.2-3B-Instruct",
    "Llama 4, calls as JSON": "vllm__tool_chat_template_llama4_json",
    "MiniMax M1": "llamacpp__MiniMax-M1",
    "Ministral 3 Reasoning": "llamacpp__mistralai-Ministral-3-14B-Reasoning-2512",
    "Mistral 7B v0.2": "llamatest__016_mistralai_Mistral-7B-Instruct-v0.2__mistralai__v1__template_with_a_system_prompt_",
    "Mistral Nemo": "llamacpp__mistralai-Mistral-Nemo-Instruct-2407",
    "Mistral Small 3.2": "llamacpp__Mistral-Small-3.2-24B-Instruct-2506",
    "Nemotron 3 Nano": "llamacpp__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Phi 3.5": "llamacpp__microsoft-Phi-3.5-mini-instruct",
    "Phi 4": "llamatest__020_phi-4",
    "Qwen 2.5": "qwen2_5",
    "Qwen 3": "qwen3",
    "Qwen 3 Coder": "llamacpp__Qwen3-Coder",
    "Qwen 3.5": "llamacpp__Qwen3.5-4B",
    "SmolLM 3": "llamacpp__HuggingFaceTB-SmolLM3-3B",
    "Step 3.5 Flash": "llamacpp__StepFun3.5-Flash",
    "Vicuna 1.1": "tgw__Vicuna-v1.1.yaml",
    "Zephyr": "chujie__zephyr",
}
"""The names of the templates of model families."""

CHOICES: Final[tuple[Turns, ...]] = ("auto", "each", "last")
IGNORED: Final = -100
"""The label of a token that is not trained."""

THOUGHTS: Final = ("zebra one", "zebra two", "zebra three")
CALL: Final = {"name": "weather", "arguments": {"city": "Rome"}}
STEPS: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": THOUGHTS[0],
        "tool_calls": [{"id": "abcdefgh1", "type": "function", "function": CALL}],
    },
    {"role": "tool", "tool_call_id": "abcdefgh1", "name": "weather", "content": "sunny"},
    {"role": "assistant", "content": "Sunny.", "reasoning_content": THOUGHTS[1]},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": "Yes.", "reasoning_content": THOUGHTS[2]},
]
"""A call, its answer, and another answer, each with reasoning in a field."""

INLINE: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": f"<think>\n{THOUGHTS[0]}\n</think>\n\nSunny."},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": f"<think>\n{THOUGHTS[1]}\n</think>\n\nYes."},
]
"""Two answers with reasoning in their words."""

PLAIN: Final[list[dict[str, Any]]] = [
    {name: value for name, value in message.items() if name != "reasoning_content"}
    for message in (STEPS[0], STEPS[3], *STEPS[4:])
]
"""Two answers."""


class Probe:
    """The trained parts of conversations by one template."""

    def __init__(self, source: str, folder: Path) -> None:
        kind = kind_of(source)
        self.stops = kind.stops
        self.tokenizer = fastpack.Tokenizer(write_folder(ROOT / "examples/tokenizer", folder, kind))

    def trained(
        self, messages: list[dict[str, Any]], turns: Turns, tools: list[dict[str, Any]] | None = None
    ) -> list[list[str]] | None:
        """The trained stretches of each document; `None` if the template refuses the conversation."""
        record = {"messages": messages, **({"tools": tools} if tools else {})}
        options: dict[str, Any] = {"strategy": "none", "on_bad_record": "skip", "max_lost": "100%"}
        table = fastpack.pack_records(
            [record], self.tokenizer, max_length=1 << 16, turns=turns, progress=False, **options
        )
        if not table.num_rows:
            return None
        return [self.stretches(row["input_ids"], row["labels"]) for row in table.to_pylist()]

    def stretches(self, ids: list[int], labels: list[int]) -> list[str]:
        """The texts of the trained stretches of a row."""
        found: list[list[int]] = []
        for before, token, label in zip([IGNORED, *labels], ids, labels, strict=False):
            if label == IGNORED:
                continue
            if before == IGNORED:
                found.append([])
            found[-1].append(token)
        return [self.tokenizer.decode(stretch) for stretch in found]

    def end(self, stretch: str) -> str:
        """The token with which a stretch ends, as code."""
        stop = max((stop for stop in self.stops if stretch.rstrip().endswith(stop)), key=len, default="")
        return f"`{stop}`" if stop else "none"

    def row(self) -> list[str]:
        """The cells of the table."""
        steps = [self.trained(STEPS, turns, TOOLS) for turns in CHOICES]
        inline = [self.trained(INLINE, turns) for turns in CHOICES]
        plain = self.trained(PLAIN, "auto")
        ends = [self.end(stretch) for document in plain or steps[0] or [] for stretch in document]
        between, last = ends[0] if ends else "", ends[-1] if ends else ""
        return [
            " · ".join("none" if found is None else str(len(found)) for found in (steps[0], plain)),
            counted(*(known(found, THOUGHTS) for found in steps)),
            counted(*(known(found, THOUGHTS[:2]) for found in inline)),
            counted(*(known(found, ("Rome",)) for found in steps)),
            between if between == last else f"{between}; last: {last}",
        ]


def known(documents: list[list[str]] | None, words: tuple[str, ...]) -> int | None:
    """The number of trained words among some words."""
    if documents is None:
        return None
    return sum(any(word in stretch for document in documents for stretch in document) for word in words)


def counted(*numbers: int | None) -> str:
    """Numbers as a cell."""
    return "refused" if None in numbers else " · ".join(map(str, numbers))


def table(folder: Path) -> str:
    """The table, of the families whose templates are at hand."""
    sources = trl_templates()
    sources |= {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))}
    lines = [
        "| model family | documents: steps, chat | reasoning in a field, of 3 | inline, of 2 | calls, of 1 | ends |",
        "|---|:-:|:-:|:-:|:-:|---|",
    ]
    for family, name in FAMILIES.items():
        if name not in sources:
            print(f"{family}: no template `{name}`", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            cells = Probe(sources[name], Path(scratch) / "model").row()
        cells = [family, *(cell.replace("|", r"\|") for cell in cells)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--print", action="store_true", help="print the table, and write nothing")
    arguments = parser.parse_args()
    text = table(arguments.folder)
    if arguments.print:
        print(text, end="")
        return
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
