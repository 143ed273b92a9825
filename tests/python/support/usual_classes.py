"""The table of tokenizer classes that fastpack builds itself, of `docs/topics/tokenizing.md`.

`python tests/python/support/usual_classes.py ../shared/data` prints its rows: of the 60 most used model types of transformers,
the classes that build an engine of their own, and the classes that 5 model types or more share. A use is a part of transformers,
outside the model's own folder, that names its configuration or its type, or a template or tokenizer of the data that bears its
name.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import transformers
from transformers import TokenizersBackend
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name

MOST_USED = 60
SHARED_BY = 5
SAME_RULES = {"BertTokenizer": ["DistilBertTokenizer"], "GPT2Tokenizer": ["CodeGenTokenizer"]}
"""Classes whose rules are those of a usual class, to the last letter."""

ROOT = Path(transformers.__file__).parent


def classes() -> dict[str, type]:
    """The class of each model type: the registered one, or else the one of its folder."""
    found = {}
    for model_type in {*CONFIG_MAPPING_NAMES, *TOKENIZER_MAPPING_NAMES}:
        name = TOKENIZER_MAPPING_NAMES.get(model_type)
        folder = model_type_to_module_name(model_type)
        file = ROOT / "models" / folder / f"tokenization_{folder}.py"
        if name is None and file.is_file():
            written = re.search(
                r"^class (\w+Tokenizer)\(TokenizersBackend\)", file.read_text("utf-8"), re.MULTILINE
            )
            name = written and written[1]
        made = tokenizer_class_from_name(name) if name else None
        if made is not None:
            found[model_type] = made
    return found


def named() -> dict[str, set[tuple[str, ...]]]:
    """The parts of transformers that name a configuration class or, in quotes, a model type."""
    parts = defaultdict(set)
    for file in ROOT.rglob("*.py"):
        place = file.relative_to(ROOT).parts
        if place[:2] == ("models", "auto") or file.name == "__init__.py":
            continue
        part = place[:2] if place[0] == "models" else place
        for name in re.findall(r'\b[A-Z]\w*Config\b|"[\w.-]+"', file.read_text("utf-8")):
            parts[name].add(part)
    return parts


def uses(model_types: dict[str, type], data: Path) -> Counter[str]:
    """The number of uses of each model type."""
    parts = named()
    names = [
        path.stem.lower() for folder in ("templates", "tokenizers") for path in (data / folder).iterdir()
    ]
    counted = Counter()
    for model_type in model_types:
        own = ("models", model_type_to_module_name(model_type))
        places = parts[f'"{model_type}"'] | parts[CONFIG_MAPPING_NAMES.get(model_type, "")]
        # `qwen2_5_vl` is in `Qwen2.5-VL-7B-Instruct`, and `gpt2` in `gpt-2`.
        words = re.findall(r"[a-z]+|\d+", model_type.lower())
        pattern = re.compile(rf"(?<![a-z0-9]){'[-_. ]?'.join(words)}(?![a-z])")
        counted[model_type] = len(places - {own}) + sum(pattern.search(name) is not None for name in names)
    return counted


def usual(data: Path) -> dict[str, list[str]]:
    """The classes to keep, each with its model types among the most used."""
    model_types = classes()
    shared = Counter(made.__name__ for made in model_types.values())
    counted = uses(model_types, data)

    def rank(model_type: str) -> tuple[int, int, str]:
        return -counted[model_type], -shared[model_types[model_type].__name__], model_type

    most = sorted(model_types, key=rank)[:MOST_USED]
    kept: dict[str, list[str]] = {}
    for model_type, made in sorted(model_types.items()):
        is_usual = model_type in most or shared[made.__name__] >= SHARED_BY
        # A class without an initializer takes `tokenizer.json` as it is.
        if (
            is_usual
            and issubclass(made, TokenizersBackend)
            and "__init__" in vars(made)
            and made is not TokenizersBackend
        ):
            kept.setdefault(made.__name__, []).extend([model_type] if model_type in most else [])
    return kept


def rows(data: Path) -> list[str]:
    """The rows of the table."""
    shared = Counter(made.__name__ for made in classes().values())
    lines = []
    for name, model_types in sorted(usual(data).items()):
        all_names = ", ".join(f"`{it}`" for it in [name, *SAME_RULES.get(name, [])])
        listed = ", ".join(f"`{it}`" for it in model_types)
        lines.append(f"| {all_names} | {shared[name]} | {listed} |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows(Path(sys.argv[1]))))
