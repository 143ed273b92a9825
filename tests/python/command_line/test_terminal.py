"""The manners of the command line: width, colours, JSON, dry runs, exit codes, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import ROOT

import fastpack
from fastpack.report.display.progress import TerminalBar
from fastpack.types import Progress

CHAT = ROOT / "examples" / "chat.jsonl"
TOKENIZER = ROOT / "examples" / "tokenizer"


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fastpack", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def on_terminal(columns, *arguments, **environment):
    """The output of a command on a terminal of this many columns."""
    ours, theirs = pty.openpty()
    termios.tcsetattr(theirs, termios.TCSANOW, termios.tcgetattr(theirs))
    import fcntl

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "fastpack", *map(str, arguments)],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=kept | environment,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal") / "packed"
    columns = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]
    fastpack.pack_dir(CHAT, folder, tokenizer=TOKENIZER, max_length=512, columns=columns)
    return folder


def test_lines_wrap_at_the_width_of_the_terminal(packed):
    narrow, wide = (on_terminal(columns, "report", packed) for columns in (50, 400))
    words = [[word for word in line.split() if len(word) <= 37] for line in narrow.splitlines()]
    assert all(
        len(line) <= 50 or len(line.split()) == 1 or max(map(len, line.split())) > 30
        for line in narrow.splitlines()
    )
    assert any(words)
    assert narrow.split() == wide.split()
    assert len(narrow.splitlines()) > len(wide.splitlines())


def test_values_stand_under_their_labels_on_the_narrowest_screens(packed):
    narrow, wide = (on_terminal(columns, "report", packed) for columns in (24, 400))
    long = [line for line in narrow.splitlines() if len(line) > 24]
    assert all(len(line.split()) == 1 for line in long), long
    assert narrow.split() == wide.split()


def test_times_are_in_seconds_and_those_of_stages_are_shown_on_request(packed):
    plain, verbose = (run("report", packed, *flags).stdout for flags in ((), ("-v",)))
    assert re.search(r"^time +\d+\.\d\d s, [\d,]+ tokens/s$", plain, re.MULTILINE)
    assert "stages" not in plain
    shown = [line for line in verbose.splitlines() if line not in plain.splitlines()]
    stages = fastpack.Report.of(packed).stages
    assert len(shown) == sum(time.wall >= 0.005 for time in stages.values())
    assert all(re.search(r" \d+\.\d\d s, \d+\.\d\d s of CPU", line) for line in shown)
    assert json.loads(run("report", packed, "-v", "--json").stdout) == fastpack.Report.of(packed).to_dict()


def test_a_scan_and_a_pack_end_with_the_command_that_comes_next(tmp_path):
    options = ["--train-on", "all", "--special-tokens.eos", "yes"]
    scanned = run("scan", CHAT, "-t", TOKENIZER, "-m", "64", "512", *options).stdout
    line = scanned.splitlines()[-1]
    assert line.startswith("next         ")
    words = shlex.split(line.removeprefix("next         "))
    assert words == [
        *("fastpack", "pack", str(CHAT), "-o", "packed", "-t", str(TOKENIZER), "-m", "512"),
        *("--train-on", "all", "--special-tokens.eos", "yes"),
    ]
    words[4] = str(tmp_path / "packed rows")
    packed = run(*words[1:]).stdout.splitlines()[-1]
    words = shlex.split(packed.removeprefix("next         "))
    assert words == ["fastpack", "inspect", str(tmp_path / "packed rows"), "--row", "0"]
    assert run(*words[1:]).returncode == 0


def test_lines_do_not_wrap_where_they_go_to_a_file(packed):
    assert run("report", packed, COLUMNS="30").stdout == f"{fastpack.Report.of(packed)}\n"


def test_the_report_names_its_inputs(packed):
    assert str(CHAT) in run("report", packed).stdout


def test_colours_honour_no_color(packed):
    assert "\x1b[32m" in on_terminal(80, "inspect", packed)
    assert "\x1b[" not in on_terminal(80, "inspect", packed, NO_COLOR="1")
    assert "\x1b[32m" in on_terminal(80, "inspect", packed, "--color", "always", NO_COLOR="1")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["report", "{packed}"], "rows"),
        (["scan", CHAT, "-t", TOKENIZER, "-m", "512"], "fits"),
        (["inspect", "{packed}"], "documents"),
        (["verify", "{packed}"], "problems"),
        (["pack", CHAT, "-o", "{out}", "-t", TOKENIZER, "-m", "512"], "rows"),
        (["pack", CHAT, "-o", "{out}", "-t", TOKENIZER, "-m", "512", "--dry-run"], "bytes"),
    ],
    ids=lambda it: it[0] if isinstance(it, list) else it,
)
def test_every_command_prints_json(arguments, key, packed, tmp_path):
    places = {"packed": packed, "out": tmp_path / "out"}
    done = run(*(str(it).format(**places) for it in arguments), "--json")
    assert done.returncode == 0, done.stderr
    assert key in json.loads(done.stdout)


def test_repacking_prints_json(tmp_path):
    fastpack.pack_dir(CHAT, tmp_path / "kept", tokenizer=TOKENIZER, max_length=512, keep_tokens=True)
    done = run("repack", "-i", tmp_path / "kept", "-o", tmp_path / "again", "-m", 256, "--json")
    assert json.loads(done.stdout)["max_length"] == 256


def test_a_dry_run_tells_and_writes_nothing(tmp_path):
    arguments = ["pack", CHAT, "-o", tmp_path / "out", "-t", TOKENIZER, "-m", 512]
    foreseen = json.loads(run(*arguments, "--dry-run", "--json").stdout)
    assert list(tmp_path.iterdir()) == []
    report = json.loads(run(*arguments, "--json").stdout)
    assert foreseen["scan"]["fits"][0]["rows"] == report["rows"]
    assert foreseen["bytes"] == report["tokens"]["kept"] * 12
    assert "would be made" in foreseen["state"]
    assert "finished job" in run(*arguments, "--dry-run").stdout


def test_a_dry_run_of_rows_of_any_length_estimates_all_tokens(tmp_path):
    arguments = ["pack", CHAT, "-o", tmp_path / "out", "-t", TOKENIZER, "-s", "none"]
    foreseen = json.loads(run(*arguments, "--dry-run", "--json").stdout)
    assert "each as long as its document" in run(*arguments, "--dry-run").stdout
    report = json.loads(run(*arguments, "--json").stdout)
    assert report["max_length"] is None
    assert foreseen["scan"]["fits"][0]["rows"] == report["rows"]
    assert foreseen["bytes"] == report["tokens"]["kept"] * 12


def test_a_dry_run_checks_all_options(tmp_path):
    done = run("pack", CHAT, "-o", tmp_path, "-t", TOKENIZER, "-m", 512, "-f", "xml", "--dry-run")
    assert (done.returncode, "--format" in done.stderr) == (2, True)


@pytest.mark.parametrize(("most", "code"), [("70%", 0), ("1%", 3), ("0.01", 3)])
def test_a_scan_exits_with_3_above_max_lost(most, code):
    done = run("scan", CHAT, "-t", TOKENIZER, "-m", 64, 512, "--max-lost", most)
    assert done.returncode == code, done.stderr
    assert "read" in done.stdout
    if code:
        assert "rows of 64 tokens lose" in done.stderr


def test_a_wrong_share_is_a_wrong_command_line():
    done = run("scan", CHAT, "-t", TOKENIZER, "-m", 64, "--max-lost", "many")
    assert (done.returncode, "--max-lost" in done.stderr) == (2, True)


def test_a_command_line_without_a_command_packs(tmp_path):
    done = run("-i", CHAT, "-o", tmp_path / "out", "-t", TOKENIZER)
    assert done.returncode == 0, done.stderr
    assert "rows hold 8,192 tokens" in done.stderr
    assert fastpack.Report.of(tmp_path / "out").max_length == 8192


def test_files_need_no_flag_and_lengths_may_be_in_k(tmp_path):
    done = run("pack", CHAT, "-o", tmp_path / "a", "-t", TOKENIZER, "-m", "4k")
    assert done.returncode == 0, done.stderr
    assert fastpack.Report.of(tmp_path / "a").max_length == 4096
    behind = run("pack", "-o", tmp_path / "b", "-m", "4_096", "-t", TOKENIZER, CHAT)
    assert behind.returncode == 0, behind.stderr
    shards = [(tmp_path / name / "train-00000.arrow").read_bytes() for name in "ab"]
    assert shards[0] == shards[1]


def test_inspect_takes_a_folder_and_counts_from_the_end(packed):
    last = json.loads(run("inspect", packed, "--row", "-1", "--json").stdout)
    assert last["row"] == last["rows"] - 1
    assert (last["documents"][0]["source"], last["documents"][0]["line"] >= 1) == (str(CHAT), True)
    assert f"from {CHAT}:" in run("inspect", packed).stdout


def test_inspect_shows_ids_where_they_are_asked_for(packed):
    row = fastpack.inspect(packed)
    shown = run("inspect", packed, "--ids").stdout
    first = [str(token) for token in row.documents[0].input_ids[:5]]
    assert " ".join(first).split("«")[0] in shown.replace("«", "").replace("»", "")


def test_inspect_refuses_a_tokenizer_that_the_manifest_does_not_know(packed, tokenizer_dir):
    done = run("inspect", packed, "-t", tokenizer_dir)
    assert (done.returncode, "packed with another" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell):
    pytest.importorskip("argcomplete", reason="completion is argcomplete's")
    done = run("completion", shell)
    assert (done.returncode, "fastpack" in done.stdout) == (0, True), done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to complete in")
def test_bash_completes_commands_flags_and_words():
    pytest.importorskip("argcomplete", reason="completion is argcomplete's")
    for line, expected in [("fastpack sc", "scan"), ("fastpack pack --overlong.s", "--overlong.side")]:
        environment = os.environ | {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "COMP_TYPE": "9",
        }
        command = f"{sys.executable} -m fastpack 8>&1 9>/dev/null 1>/dev/null"
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False
        )
        assert expected in done.stdout.split("\n")[0], (line, done)


class Terminal:
    """A stream that keeps the drawn text."""

    def __init__(self):
        self.drawn = []

    def write(self, text):
        self.drawn.append(text)

    def flush(self):
        pass

    def isatty(self):
        return True


def test_progress_tells_the_rate_and_the_time_left(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    bar = TerminalBar(terminal)
    clock[0] = 30.0
    bar.show(Progress("tokenize", 250, 1000, 10, 6_000_000, 0))
    assert "6.0M tokens  200.0k/s  1:30 left" in terminal.drawn[-1]
    assert " 25%" in terminal.drawn[-1]


def test_progress_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    terminal = Terminal()
    TerminalBar(terminal).show(Progress("tokenize", 250, 1000, 10, 6_000_000, 0))
    assert len(terminal.drawn[-1].strip("\r")) < 30


def test_a_card_is_written_once_and_spares_what_others_wrote(tmp_path):
    fastpack.pack_dir(CHAT, tmp_path, tokenizer=TOKENIZER, max_length=512)
    for _ in range(2):
        assert run("report", tmp_path, "--card").returncode == 0
    card = Path(tmp_path, "README.md").read_text(encoding="utf-8")
    assert "train-00000.arrow" in card.split("---")[1]
    Path(tmp_path, "README.md").write_text("mine", encoding="utf-8")
    refused = run("report", tmp_path, "--card")
    assert (refused.returncode, "fastpack did not write it" in refused.stderr) == (1, True)
