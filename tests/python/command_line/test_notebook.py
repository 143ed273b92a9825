"""A notebook: the output of cells for reports, rows, tokenizers and splits, run by a kernel."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

nbformat = pytest.importorskip("nbformat", reason="no notebook can be made without nbformat")
nbclient = pytest.importorskip("nbclient", reason="no notebook can be run without nbclient")
pytest.importorskip("ipykernel", reason="no notebook can be run without a kernel")

CELLS = [
    # a cell, and texts of its HTML
    ("import fastpack, tempfile; CHAT, TOKENIZER = 'examples/chat.jsonl', 'examples/tokenizer'", None),
    ("table = fastpack.pack_files(CHAT, TOKENIZER, max_length=512); fastpack.Report.of(table)", "1,901"),
    ("fastpack.inspect(table, row=0)", "<mark>"),
    ("fastpack.scan(CHAT, TOKENIZER, max_length=[64, 512])", "padding"),
    ("fastpack.Tokenizer(TOKENIZER)", "compiled"),
    ("fastpack.pack_files(CHAT, TOKENIZER, max_length=512, validation=0.2)", "validation"),
    ("folder = tempfile.mkdtemp()", None),
    ("fastpack.pack_dir(CHAT, folder, tokenizer=TOKENIZER, max_length=512)", "documents a row"),
    ("fastpack.inspect(folder, row=-1)", "row 3 of 4"),
    ("fastpack.stream(CHAT, TOKENIZER, max_length=512)", "A stream of packed rows"),
]


@pytest.fixture(scope="module")
def run_notebook():
    """The notebook of these cells, as a kernel leaves it."""
    cells = [nbformat.v4.new_code_cell(source) for source, _ in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    ).execute()
    return notebook


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_cell_shows_html(number, run_notebook):
    source, told = CELLS[number]
    outputs = run_notebook.cells[number].outputs
    shown = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    if told is not None:
        assert any(told in page for page in shown), (source, outputs)


@pytest.mark.filterwarnings("ignore")
def test_what_cells_show_takes_nothing_from_the_network(run_notebook):
    for cell in run_notebook.cells:
        for output in cell.outputs:
            page = output.get("data", {}).get("text/html", "")
            assert not re.search(r"(?:src|href)\s*=|@import|url\(", page)


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_draws_a_bar_while_it_packs(run_notebook):
    """The bar is a display of its own, which is empty once all is done."""
    outputs = run_notebook.cells[1].outputs
    assert [it.output_type for it in outputs] == ["display_data", "execute_result"]
    assert outputs[0].data["text/html"] == ""
