"""The ten lines of README, from a folder of chats to a training step."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).parents[2]


def test_the_ten_lines_train(tmp_path, monkeypatch):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(import fastpack, torch\n.*?)```", page, flags=re.DOTALL)
    assert block
    lines = [
        line for line in block[1].splitlines() if line.strip() and not line.startswith(("from", "import"))
    ]
    assert len(lines) <= 10
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=4096, **sizes))
    model.save_pretrained(tmp_path / "org" / "model")
    AutoTokenizer.from_pretrained(ROOT / "examples" / "tokenizer").save_pretrained(tmp_path / "org" / "model")
    (tmp_path / "chats").mkdir()
    shutil.copy(ROOT / "examples" / "chat.jsonl", tmp_path / "chats")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block[1].replace("4096", "256"), "README.md", "exec"), names)
    assert names["model"](**names["batch"]).loss.item() > 0
