//! Inputs become files in a known order, and files become whole numbered lines.

use std::fs;
use std::path::{Path, PathBuf};

use fastpack_core::Control;
use fastpack_core::config::{Inputs, Reading, Source};
use fastpack_core::error::{Error, Result};
use fastpack_core::source::{Blocks, FoundFiles, InputBlocks, RawContent, discover};
use tempfile::{TempDir, tempdir};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    dir
}

fn find(patterns: &[PathBuf], recursive: bool) -> Result<FoundFiles> {
    let source = Source::of(patterns.to_vec(), Reading::default());
    discover(&Inputs { sources: vec![source], recursive, ..Inputs::default() }, &Control::default())
}

/// The names of the files found, relative to `dir`.
fn names(found: &FoundFiles, dir: &Path) -> Vec<String> {
    let relative =
        |path: &Path| path.strip_prefix(dir).expect("a file of the folder").display().to_string();
    found.files.iter().map(|file| relative(&file.path)).collect()
}

fn option_error(result: Result<FoundFiles>) -> String {
    match result {
        Err(error @ Error::Option { .. }) => error.to_string(),
        other => panic!("expected an option error, got {other:?}"),
    }
}

#[test]
fn a_folder_gives_its_line_files_sorted_by_path() {
    let dir = folder(&[
        ("b.jsonl", ""),
        ("a.jsonl", ""),
        ("c.ndjson", ""),
        ("sub/d.jsonl", ""),
        (".hidden.jsonl", ""),
    ]);
    let found = find(&[dir.path().to_owned()], false).expect("files");
    assert_eq!(names(&found, dir.path()), ["a.jsonl", "b.jsonl", "c.ndjson"]);
}

#[test]
fn a_recursive_folder_gives_the_files_of_its_folders_too() {
    let dir = folder(&[("b.jsonl", ""), ("a/z.jsonl", ""), ("c/a/x.jsonl", "")]);
    let found = find(&[dir.path().to_owned()], true).expect("files");
    assert_eq!(names(&found, dir.path()), ["a/z.jsonl", "b.jsonl", "c/a/x.jsonl"]);
}

#[test]
fn other_data_in_a_folder_is_mentioned() {
    let dir = folder(&[
        ("a.jsonl", ""),
        ("b.tar", "{}\n"),
        ("LICENSE", "Do what you like."),
        ("README.md", "about"),
        ("_SUCCESS", ""),
        ("_started", "{}\n"),
        ("info.json", "{\n  \"rows\": 3\n}"),
        ("list.json", "[]"),
        ("lines.json", "{}\n{}\n"),
        ("settings.ini", "[all]\nrows = 3\n"),
    ]);
    let found = find(&[dir.path().to_owned()], false).expect("files");
    assert_eq!(names(&found, dir.path()), ["a.jsonl", "lines.json", "list.json"]);
    let others = ["LICENSE", "README.md", "_started", "b.tar", "info.json", "settings.ini"];
    assert_eq!(found.passed_over, others.map(|it| dir.path().join(it)));
}

#[test]
fn files_of_a_folder_are_looked_into_where_their_names_say_nothing() {
    let dir = folder(&[
        ("part-00000", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"),
        ("data.dat", "\u{feff}\n{\"text\": \"a\"}"),
        ("list", "[\n{\"text\": \"a\"}]"),
        ("pairs", "question,answer\n1,2\n"),
        ("tabs.tab", "\"prompt\"\t\"completion\"\n1\t2\n"),
        ("notes", "question, answer: both matter\n"),
        ("long", &format!("{{\"text\": \"{}\"}}\n", "a".repeat(70 << 10))),
        ("part-00000.tmp", "{\"text\": \"a\"}\n"),
        ("part.jsonl.1", "{\"text\": \"a\"}\n"),
        ("part~", "{\"text\": \"a\"}\n"),
        ("pretty", "{\n  \"text\": 1\n}"),
    ]);
    let found = find(&[dir.path().to_owned()], false).expect("files");
    let formats: Vec<String> = found.files.iter().map(|file| file.format.to_string()).collect();
    let read = ["data.dat", "list", "long", "pairs", "part-00000", "tabs.tab"];
    assert_eq!(names(&found, dir.path()), read);
    assert_eq!(formats, ["jsonl", "json", "jsonl", "csv", "jsonl", "tsv"]);
    let others = ["notes", "part-00000.tmp", "part.jsonl.1", "part~", "pretty"];
    assert_eq!(found.passed_over, others.map(|it| dir.path().join(it)));
}

#[test]
fn a_file_that_is_named_is_a_text_where_it_can_be_nothing_else() {
    let dir = folder(&[
        ("notes", "Of rivers.\n\nThey flow."),
        ("quoted.rst", "\"Of rivers\", he said."),
        ("lines", "no record\n{\"text\": \"a\"}\n"),
        ("broken", "{'text': 'a'}\n"),
        ("bytes", "a\u{1}b"),
        // A character continues behind the bytes that are looked at.
        ("long", &format!("a{}", "é".repeat(64 << 10))),
    ]);
    let format = |name: &str| {
        let found = find(&[dir.path().join(name)], false).expect("a file");
        found.files[0].format.to_string()
    };
    assert_eq!(format("notes"), "txt");
    assert_eq!(format("quoted.rst"), "txt");
    assert_eq!(format("lines"), "jsonl");
    assert_eq!(format("broken"), "jsonl");
    assert_eq!(format("bytes"), "jsonl");
    assert_eq!(format("long"), "txt");
}

#[test]
fn named_files_keep_the_order_in_which_they_were_named() {
    let dir = folder(&[("a.jsonl", ""), ("b.jsonl", "")]);
    let found =
        find(&[dir.path().join("b.jsonl"), dir.path().join("a.jsonl")], false).expect("files");
    assert_eq!(names(&found, dir.path()), ["b.jsonl", "a.jsonl"]);
}

#[test]
fn files_of_one_name_in_two_folders_are_both_read() {
    let dir = folder(&[("x/a.jsonl", ""), ("y/a.jsonl", "")]);
    let found =
        find(&[dir.path().join("x/a.jsonl"), dir.path().join("y/a.jsonl")], false).expect("files");
    assert_eq!(found.files.len(), 2);
}

#[test]
fn globs_and_brace_lists_are_expanded() {
    let dir = folder(&[("part-00.jsonl", ""), ("part-01.jsonl", ""), ("part-10.jsonl", "")]);
    let glob = find(&[dir.path().join("part-0*.jsonl")], false).expect("files");
    assert_eq!(names(&glob, dir.path()), ["part-00.jsonl", "part-01.jsonl"]);
    let braces = find(&[dir.path().join("part-{00..01}.jsonl")], false).expect("files");
    assert_eq!(braces.files, glob.files);
}

#[test]
fn a_file_whose_name_looks_like_a_pattern_is_itself() {
    let dir = folder(&[("a[1]{x,y}.jsonl", "")]);
    let found = find(&[dir.path().join("a[1]{x,y}.jsonl")], false).expect("files");
    assert_eq!(found.files.len(), 1);
}

#[test]
fn a_brace_list_with_a_file_missing_names_it() {
    let dir = folder(&[("part-0.jsonl", "")]);
    let error = find(&[dir.path().join("part-{0..1}.jsonl")], false).expect_err("one is missing");
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("part-1.jsonl")), "{error}");
}

#[test]
fn nothing_to_read_is_an_error_that_says_what_would_be_right() {
    let dir = folder(&[("sub/a.jsonl", "")]);
    let empty = option_error(find(&[dir.path().to_owned()], false));
    assert!(empty.contains("holds no file of records"), "{empty}");
    assert!(empty.contains("; reading.recursive = true"), "{empty}");
    let no_match = option_error(find(&[dir.path().join("*.jsonl")], false));
    assert!(no_match.contains("matches no file"), "{no_match}");
    let none = option_error(find(&[], false));
    assert!(none.contains("at least one file"), "{none}");
}

#[test]
fn a_file_named_twice_is_refused() {
    let dir = folder(&[("a.jsonl", "")]);
    let twice =
        option_error(find(&[dir.path().join("a.jsonl"), dir.path().join("*.jsonl")], false));
    assert!(twice.contains("is named twice"), "{twice}");
}

#[test]
fn a_format_that_is_not_read_is_refused_by_name() {
    let dir = folder(&[("a.zip", "PK")]);
    let refused = option_error(find(&[dir.path().join("a.zip")], false));
    assert!(refused.contains("a.zip` is of a format that is not read"), "{refused}");
}

/// All lines that the blocks of these texts hold: file name, number, text.
fn lines(texts: &[&str]) -> Vec<(String, u64, String)> {
    let files: Vec<(String, &str)> =
        texts.iter().enumerate().map(|(at, text)| (format!("{at}.jsonl"), *text)).collect();
    let dir = folder(&files.iter().map(|(name, text)| (name.as_str(), *text)).collect::<Vec<_>>());
    let found = find(&[dir.path().to_owned()], false).expect("files");
    let mut blocks = Blocks::new(found);
    let mut all = Vec::new();
    while let Some(block) = blocks.next_block(&Control::default()).expect("a readable file") {
        for record in block.records() {
            let RawContent::Json(bytes) = record.raw else { panic!("a line, got {record:?}") };
            let name = block.path.file_name().expect("a file").to_string_lossy().into_owned();
            all.push((name, record.line, String::from_utf8_lossy(bytes).into_owned()));
        }
    }
    all
}

fn numbered(file: &str, lines: &[(u64, &str)]) -> Vec<(String, u64, String)> {
    lines.iter().map(|(number, text)| (file.to_owned(), *number, (*text).to_owned())).collect()
}

#[test]
fn blank_lines_are_counted_and_passed_over() {
    assert_eq!(lines(&["\n a \n\n \t\r\nb"]), numbered("0.jsonl", &[(2, " a "), (5, "b")]));
}

/// The values of an array, and where it breaks if it does: line and text.
fn values(text: &str) -> Vec<(u64, String)> {
    let dir = folder(&[("a.json", text)]);
    let found = find(&[dir.path().join("a.json")], false).expect("a file");
    let mut blocks = Blocks::new(found);
    let mut all = Vec::new();
    while let Some(block) = blocks.next_block(&Control::default()).expect("a readable file") {
        all.extend(block.records().map(|record| match record.raw {
            RawContent::Json(bytes) => (record.line, String::from_utf8_lossy(bytes).into_owned()),
            RawContent::Broken { message, .. } => (record.line, format!("broken: {message}")),
            other => panic!("a value, got {other:?}"),
        }));
    }
    all
}

fn owned(values: &[(u64, &str)]) -> Vec<(u64, String)> {
    values.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
}

#[test]
fn an_array_is_cut_into_its_values_with_their_lines() {
    assert_eq!(values("[]"), []);
    assert_eq!(values("\u{feff} [\n]\n"), []);
    assert_eq!(
        values("\n[\n {\"a\": [1, {\"b\": \"]}\\\"\"}]},\n\n {\n\"c\": 1\n}\n, 7, \"x,\",null]\n"),
        owned(&[
            (3, "{\"a\": [1, {\"b\": \"]}\\\"\"}]}"),
            (5, "{\n\"c\": 1\n}"),
            (8, "7"),
            (8, "\"x,\""),
            (8, "null"),
        ])
    );
}

#[test]
fn an_array_that_breaks_off_names_the_line() {
    let end = |wanted: &str| format!("broken: expected {wanted}, found the end of the file");
    let rest = end("the rest of a record");
    assert_eq!(values("[{},\n{\"a\": 1"), owned(&[(1, "{}"), (2, &rest)]));
    assert_eq!(
        values("[{}\n"),
        owned(&[(1, "{}"), (2, &end("`,` or the `]` that ends the list"))])
    );
    assert_eq!(values("[{},\n"), owned(&[(1, "{}"), (2, &end("a record"))]));
    assert_eq!(values("[{},\n]"), owned(&[(1, "{}"), (2, "broken: expected a record, found `]`")]));
    assert_eq!(
        values("[{} {}]"),
        owned(&[(1, "{}"), (1, "broken: expected `,` or the `]` that ends the list, found `{`")])
    );
    assert_eq!(
        values("[1]\n[2]"),
        owned(&[(1, "1"), (2, "broken: expected nothing after the list, found `[`")])
    );
}

#[test]
fn an_array_is_cut_alike_whatever_the_length_of_its_values() {
    let lengths = [10, 300_000, 1, 262_143, 262_144, 262_145, 2_000_000, 5];
    let texts: Vec<String> =
        lengths.iter().map(|&length| format!("\"{}\"", "\\\"".repeat(length))).collect();
    let read = values(&format!("[{}]", texts.join("\n,")));
    assert_eq!(read.iter().map(|(line, _)| *line).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    assert_eq!(read.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), texts);
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_accepted() {
    assert_eq!(lines(&["\u{feff}a\r\nb\r\n"]), numbered("0.jsonl", &[(1, "a\r"), (2, "b\r")]));
}

#[test]
fn an_empty_file_has_no_line() {
    assert_eq!(lines(&["", "a"]), numbered("1.jsonl", &[(1, "a")]));
}

#[test]
fn blocks_are_cut_at_newlines_whatever_the_length_of_the_lines() {
    let lengths = [10, 300_000, 1, 262_143, 262_144, 262_145, 2_000_000, 5];
    let text: Vec<String> = lengths.iter().map(|&length| "x".repeat(length)).collect();
    let read = lines(&[&text.join("\n")]);
    assert_eq!(
        read.iter().map(|(_, number, _)| *number).collect::<Vec<_>>(),
        (1..=8).collect::<Vec<_>>()
    );
    assert_eq!(read.into_iter().map(|(_, _, line)| line).collect::<Vec<_>>(), text);
}
