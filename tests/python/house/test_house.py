"""The structure of the house: who may import whom, and which words have one home."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import textwrap

import pytest
import python_imports
from conftest import ROOT
from rust_imports import circles, graph

import fastpack
from fastpack import api
from fastpack.api import repack_source, run
from fastpack.options import OPTIONS, native
from fastpack.streaming import stream as streaming

CORE = ROOT / "rust" / "core" / "src"
BINDING = ROOT / "rust" / "python" / "src"
PACKAGE = ROOT / "python" / "fastpack"

STAGES = ["source", "record", "template", "document", "pack", "objective", "assemble", "sink"]
SHARED = {"config", "error", "report", "storage", "util"}

# The modules that a stage may name beyond the shared ones: the stage before it. Assembly joins a plan with the store that
# the plan points into; the sink writes batches, which are Arrow's own.
BEFORE = {
    "source": set(),
    "record": {"source"},
    "template": {"record"},
    "document": {"template", "record"},
    "pack": set(),
    "objective": {"document"},
    "assemble": {"pack", "document", "objective"},
    "sink": set(),
}
ORDERING = {"pipeline", "stream", "lib"}


def code(path):
    """The source without comments and without the tests inside it."""
    text = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    return "\n".join(line.split("//")[0] for line in text.splitlines())


def module(path):
    """The module directly under the crate that a file belongs to."""
    return path.relative_to(CORE).parts[0].removesuffix(".rs")


def names_of_crate(path):
    """The modules of the crate that a file names, in `use` lines and in paths."""
    text = code(path)
    names = set(re.findall(r"\bcrate::(\w+)", text))
    for group in re.findall(r"\bcrate::\{([^;]*)\}", text):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", group))
    return {name for name in names if (CORE / name).is_dir() or (CORE / f"{name}.rs").is_file()}


def core_files():
    return sorted(CORE.rglob("*.rs"))


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(CORE)))
def test_a_stage_names_only_the_stage_before_it(path):
    home = module(path)
    named = names_of_crate(path) - SHARED - {home}
    if home in STAGES:
        assert named <= BEFORE[home]
    elif home not in ORDERING and home not in SHARED:
        assert not named & set(STAGES), "only pipeline and stream name stages"


@pytest.mark.parametrize(
    "path", [path for path in core_files() if module(path) in SHARED], ids=lambda path: path.stem
)
def test_shared_modules_name_no_stage(path):
    assert not names_of_crate(path) & set(STAGES)


@pytest.mark.parametrize("crate", ["core", "picture", "python", "template", "tokenize"])
def test_no_files_of_a_crate_name_each_other(crate):
    """A file can be read without those that build on it: the common part of two files stands in a third."""
    assert circles(graph(ROOT / "rust" / crate / "src")) == []


def test_a_circle_of_files_is_found(tmp_path):
    (tmp_path / "lib.rs").write_text("mod a; mod b; mod c;\npub use b::deep::Thing;", encoding="utf-8")
    (tmp_path / "a.rs").write_text("use crate::{Thing, c::other};", encoding="utf-8")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mod.rs").write_text("pub mod deep;", encoding="utf-8")
    (tmp_path / "b" / "deep.rs").write_text("pub struct Thing(super::super::a::Inner);", encoding="utf-8")
    (tmp_path / "c.rs").write_text("// use crate::a;\npub fn other() {}", encoding="utf-8")
    assert circles(graph(tmp_path)) == [["a", "b::deep"]]


@pytest.mark.parametrize(
    "crate", ["fastpack-core", "fastpack-picture", "fastpack-template", "fastpack-tokenize"]
)
def test_the_core_never_sees_python(crate):
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not on the path")
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "--offline", "-p", crate, "-i", "pyo3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tree.stdout == "", f"pyo3 is in the tree of {crate}"
    assert "nothing to print" in tree.stderr or "did not match any packages" in tree.stderr, tree.stderr


@pytest.mark.parametrize(
    ("word", "homes"),
    [
        (r"\.detach\(", {"interruptible.rs"}),
        (r"check_signals", {"interruptible.rs"}),
        (r"Python::(try_)?attach\(", {"interruptible.rs", "error.rs"}),
    ],
)
def test_only_supervise_detaches_attaches_and_looks_at_signals(word, homes):
    found = {path.name for path in BINDING.rglob("*.rs") if re.search(word, code(path))}
    assert found <= homes


def test_threads_are_started_in_one_place():
    """Threads that the system may refuse: in the core, and in the crate below it, which is used alone too."""
    crates = {
        CORE: {"threads.rs", "request_threads.rs"},
        BINDING: set(),
        ROOT / "rust" / "tokenize" / "src": {"in_parallel.rs"},
    }
    for crate, homes in crates.items():
        found = {
            path.name for path in crate.rglob("*.rs") if re.search(r"\.spawn(_scoped)?\((?!\))", code(path))
        }
        assert found <= homes


def test_the_rules_of_a_strategy_have_one_home():
    """Elsewhere a strategy is asked for its rules; only the planner chooses its algorithm by its name."""
    homes = {
        str(path.relative_to(CORE))
        for path in core_files()
        if re.search(r"Strategy::(Mix|BestFit|Heap|Sequential|Concat|None)\b", code(path))
    }
    assert homes == {"pack/planner.rs"}
    named = re.compile(r"""(strategy\S*|\["strategy"\]\)?|"strategy"\)) (==|!=|in) ["({\[]""")
    assert [path.name for path in PACKAGE.rglob("*.py") if named.search(code(path))] == ["packing.py"]


def test_column_names_have_one_home():
    homes = {
        str(path.relative_to(CORE))
        for path in core_files()
        if re.search(r'"(input_ids|labels|position_ids|seq_lengths)"', code(path))
    }
    # Parts of records and their usual fields bear the same names as the columns that are made of them.
    assert homes == {"config/columns.rs", "config/inputs/part.rs", "config/inputs/fields.rs"}


def test_defaults_are_written_once():
    """Native functions and core options have none; in Python each stands in the table of options."""
    for path in BINDING.rglob("*.rs"):
        for signature in re.findall(r"signature = \((.*?)\)\)\]", code(path), flags=re.DOTALL):
            assert "=" not in signature, f"{path.name} has a default"
    assert not re.search(
        r"impl Default for Options|derive\([^)]*Default[^)]*\)\]\s*pub struct Options",
        code(CORE / "config" / "mod.rs"),
    )


@pytest.mark.parametrize("name", api.__all__)
def test_every_option_of_a_function_reaches_the_native_module(name):
    """An option is in a group, which takes it from the arguments of a call, or the body of the call names it or its value."""
    sources = "".join(map(inspect.getsource, (run, streaming, native, repack_source)))
    named = set(re.findall(r'arguments(?:\[|\.get\()"(\w+)"', sources))
    values = set(re.findall(r"value_in\((?:self\._)?arguments, (\w+)\)", sources))
    grouped = {
        option.name
        for option in OPTIONS.values()
        if option.group or any(kind.__name__ in values for kind in option.kinds.values())
    }
    assert set(inspect.signature(getattr(api, name)).parameters) <= grouped | named


def test_a_new_option_touches_the_table_and_the_core_alone():
    """Outside of the table, Python names an option only where it does something with it."""
    padding = {path.name for path in PACKAGE.rglob("*.py") if "open_rows" in code(path)}
    # Its own place, and the word that it had before.
    assert padding == {"packing.py", "foreign_names.py"}


@pytest.mark.parametrize("name", [*api.__all__, "Tokenizer"])
def test_every_option_is_on_a_page(name):
    pages = "".join(
        page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    )
    taken = {"source", "lengths", "table", "records"}  # what a call is about, which its examples show
    options = inspect.signature(getattr(fastpack, name)).parameters.keys() - taken
    assert [option for option in options if not re.search(rf"`{option}[`=(]|\b{option}=", pages)] == []


@pytest.mark.parametrize(
    "path",
    [*ROOT.glob("rust/*/src/**/*.rs"), *PACKAGE.rglob("*.py"), *ROOT.glob("tests/python/**/*.py")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_file_opens_with_a_sentence(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("//! ") if path.suffix == ".rs" else first.startswith('"""')


def test_no_modules_of_the_package_import_each_other():
    """A module can be read without those that build on it, imports inside functions included."""
    assert circles(python_imports.graph(PACKAGE)) == []


def test_a_circle_of_modules_is_found(tmp_path):
    (tmp_path / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "above.py").write_text("from fastpack import below", encoding="utf-8")
    (tmp_path / "below.py").write_text("def late():\n    from fastpack.above import it", encoding="utf-8")
    (tmp_path / "typed.py").write_text(
        "if TYPE_CHECKING:\n    from fastpack.above import it", encoding="utf-8"
    )
    assert circles(python_imports.graph(tmp_path)) == [["above", "below"]]


def test_what_draws_an_object_imports_no_object():
    """An object imports `report.display` when it is shown, so that display imports none of the objects: they are handed to it."""
    needed = {"arguments", "errors", "report.report_facts", "storage.removal"}
    named = {
        ".".join(found)
        for module, imported in python_imports.graph(PACKAGE).items()
        if module[:2] == ("report", "display")
        for found in imported
        if found[:2] != ("report", "display")
    }
    packages = {"report", "storage"}  # which run where a module in them is imported
    assert {name for name in named if name.partition(".")[0] != "arguments"} <= needed | packages


# The package itself: `errors`, `types`, `ray` and `wandb` are public modules, three more files have names that Python asks for.
FULL = {"python/fastpack": 21}


@pytest.mark.parametrize("source", ["rust", "python", "docs", "tests", "examples", "benches", "scripts"])
def test_a_folder_has_at_most_fifteen_entries(source):
    """Beside its front page: `mod.rs`, `lib.rs`, `__init__.py`, `README.md`, or of tests `main.rs`, `conftest.py`, `pytest.ini`."""
    front = {
        "mod.rs",
        "lib.rs",
        "main.rs",
        "__init__.py",
        "README.md",
        "conftest.py",
        "pytest.ini",
        "__pycache__",
    }
    folders = [
        path for path in (ROOT / source).glob("**") if path.is_dir() and "__pycache__" not in path.parts
    ]
    entries = {
        str(folder.relative_to(ROOT)): len(
            {path.name for path in folder.iterdir() if path.suffix != ".so"} - front
        )
        for folder in folders
    }
    assert {folder: count for folder, count in entries.items() if count > FULL.get(folder, 15)} == {}


def test_messages_of_the_core_spell_no_keyword_arguments():
    """Settings in messages of the core are data (`wording.rs`), which each interface spells."""
    spelled = re.compile(r'\b[a-z_]+=(True|False|None|\\"|\{)')
    found = [
        f"{path.relative_to(ROOT)}: {literal}"
        for path in core_files()
        for literal in re.findall(r'"(?:[^"\\]|\\.)*"', code(path))
        if spelled.search(literal)
    ]
    assert found == []


def test_the_option_of_an_error_is_named_in_one_place():
    """`OptionError(reason, option)`: the option is put before the reason where the message is shown."""
    homes = {PACKAGE / "errors.py", PACKAGE / "cli" / "messages.py"}
    named = {path for path in PACKAGE.rglob("*.py") if "invalid option `" in path.read_text(encoding="utf-8")}
    assert named == homes


# The homes of removals and of writes over files and objects, and the words for these elsewhere. Files that a job has made under a
# name of its own go there too.
REMOVES_IN_RUST = re.compile(
    r"\bfs::(?:remove_\w+|rename|write|copy)\b|\btruncate\(true\)|File::create\b|\.delete(?:_stream)?\("
    r"|\.put_opts\(|\.put\(&?path|\.copy(?:_opts|_if_not_exists)?\(&?\w+, &|\.rename\(&|\.put_multipart\w*\("
)
RUST_HOMES = {
    "util/disk/removal.rs": "the disk",
    "util/disk/regular.rs": "renames where there must be none",
    "storage/buckets/objects.rs": "buckets",
    "storage/buckets/upload.rs": "uploads by names that are proved",
    "storage/buckets/lease.rs": "locks, on conditions",
}
REMOVES_IN_PYTHON = re.compile(
    r"\.unlink\(|\brmtree\(|\bos\.(?:remove|unlink|rename|replace|rmdir)\(|\.rmdir\(|\bshutil\.move\("
    r"|\b(?:part|new|beside|path|temporary)\.(?:replace|rename)\((?![\"'])"
)
PYTHON_HOMES = {
    "storage/removal.py": "the disk",
    "streaming/serving/place_file.py": "the state of a loader, which it has sealed",
    "streaming/serving/address.py": "sockets that this process has made",
}


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_removes_and_replaces_in_one_home(path):
    if str(path.relative_to(CORE)) not in RUST_HOMES and path.name != "tests.rs":
        assert not REMOVES_IN_RUST.findall(code(path))


# Each says by which manifest, lock or marker a file is fastpack's.
EVIDENCE = {
    "util/disk/removal.rs": "a file that this process has made",
    "util/disk/sealed.rs": "sealed text in a cache",
    "sink/bucket/run_names.rs": "the job in a name, and the record of a job that has begun",
    "sink/folder/discarded_outputs.rs": "the mark of a file in an entry of the cache, and the second name of a shard that stays",
    "sink/bucket/replaced_outputs.rs": "the manifests of outputs in a bucket",
    "sink/bucket/uploaded_copies.rs": "the manifest of a finished folder",
    "sink/groups/group_files.rs": "the work folder of a job of groups",
    "sink/folder/lock.rs": "the lock of the work folder, and the job that has begun there",
    "sink/folder/own_files.rs": "the manifests of a folder",
    "storage/cache/block_cache.rs": "the name in an entry of the cache",
    "storage/cache/lock_record.rs": "the lock of a whole file in the cache",
}


def test_the_kinds_of_evidence_are_these():
    gives = re.compile(r"\bimpl Evidence<\w+> for ")
    assert {
        str(path.relative_to(CORE)) for path in core_files() if gives.search(code(path))
    } == EVIDENCE.keys()


# Words by which code tells an output in a bucket from one on the disk.
CHOOSES = re.compile(
    r"(?:\bmatch|\blet (?:Some|None)\b[^=\n]*=|\bif) \(?&?(?:\w+\.)*(?:remote|bucket)\b(?![(.])"
    r"|\b(?:remote|bucket)\.(?:is_some|is_none|as_ref|map|map_or|and_then)\b|\bOption<Bucket\w*>"
)
CHOICES = {
    "sink/store/mod.rs": "the choice between the two stores",
    "pipeline/runs/append.rs": "refuses to append in a bucket",
    "pipeline/runs/pack_dir.rs": "refuses inputs in the output",
    "pipeline/runs/reindex.rs": "the index of a stream, which is no job",
}


def test_the_place_of_an_output_is_chosen_in_one_home():
    """Both places take the same steps (`sink/store/job_states.rs`) over one small trait, which each of them implements."""
    stages = [path for path in core_files() if module(path) in {"sink", "pipeline"}]
    found = {str(path.relative_to(CORE)) for path in stages if CHOOSES.search(code(path))}
    assert found == CHOICES.keys()


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_the_package_removes_and_replaces_in_one_home(path):
    if str(path.relative_to(PACKAGE)) not in PYTHON_HOMES:
        assert not REMOVES_IN_PYTHON.findall(path.read_text(encoding="utf-8"))


def calls_in(path):
    """The calls `fastpack.NAME(...)` in the scripts that a file holds as text: the name, the keywords and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        held = [part.value if isinstance(part, ast.Constant) else "0" for part in parts]
        text = "".join(part for part in held if isinstance(part, str))
        if "fastpack." not in text:
            continue
        try:
            script = ast.parse(textwrap.dedent(text))
        except SyntaxError:
            continue
        for call in ast.walk(script):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name("fastpack"), attr=name), keywords=keywords):
                    yield name, {it.arg for it in keywords if it.arg}, node.lineno


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.stem)
def test_scripts_in_tests_give_options_that_exist(path):
    """A script that is refused at once may look like one that was killed, and proves nothing."""
    # Its scripts hold the mistakes that an editor is to find.
    if path.stem == "test_editors":
        return
    for name, keywords, line in calls_in(path):
        function = getattr(fastpack, name, None)
        if inspect.isfunction(function):
            unknown = keywords - inspect.signature(function).parameters.keys()
            assert not unknown, f"{path}:{line}: {name} has none of {unknown}"
