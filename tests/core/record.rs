//! Lines become records: the shapes that are read, and the faults of the others by name.

use std::sync::Arc;

use fastpack_core::config::{DocumentKind, Fields, Part, ShapeName};
use fastpack_core::json::Json;
use fastpack_core::record::{
    self, Conversation, Fault, MAX_DEPTH, MessageForms, Record, ShapeOptions, find_shape,
};
use fastpack_core::report::ledger::Reason;
use fastpack_core::source::RawContent;

fn expecting(fields: &Fields) -> ShapeOptions<'_> {
    ShapeOptions { shape: None, fields, shapes: DocumentKind::Texts.shapes() }
}

/// Reads a line as the first of its file.
fn read(line: &[u8], fields: &Fields) -> Result<Record, Fault> {
    let expected = expecting(fields);
    let found = find_shape([RawContent::Json(line)], expected).map(|found| found.shape);
    record::read(RawContent::Json(line), found.as_ref(), expected, MessageForms::ALL)
}

fn conversation(line: &str) -> Conversation {
    match read(line.as_bytes(), &Fields::default()) {
        Ok(Record::Conversation(conversation)) => conversation,
        other => panic!("expected a conversation, got {other:?}"),
    }
}

fn text(line: &str) -> String {
    match read(line.as_bytes(), &Fields::default()) {
        Ok(Record::Text(text)) => text,
        other => panic!("expected a text, got {other:?}"),
    }
}

#[track_caller]
fn refused(line: impl AsRef<[u8]>, reason: Reason, message: &str) {
    let fault = read(line.as_ref(), &Fields::default()).expect_err("a line that is no record");
    assert_eq!(fault.reason, reason, "{}", fault.message);
    assert!(fault.message.contains(message), "`{}` does not say `{message}`", fault.message);
}

fn string(text: &str) -> Json {
    Json::String(Arc::from(text))
}

#[test]
fn a_conversation_stands_under_any_of_its_three_names() {
    for name in ["messages", "conversation", "conversations"] {
        let read = conversation(&format!(
            r#"{{"id": 1, "{name}": [{{"role": "user", "content": "hi"}}]}}"#
        ));
        assert_eq!(read.messages[0]["content"], string("hi"));
    }
}

#[test]
fn sharegpt_turns_are_renamed_and_keep_their_other_keys() {
    let read = conversation(
        r#"{"conversations": [{"from": "human", "value": "a", "id": 7}, {"from": "gpt", "value": "b"}]}"#,
    );
    let keys: Vec<&str> = read.messages[0].keys().map(AsRef::as_ref).collect();
    assert_eq!(keys, ["role", "content", "id"]);
    assert_eq!(read.messages[0]["role"], string("user"));
    assert_eq!(read.messages[1]["role"], string("assistant"));
}

#[test]
fn a_null_conversation_beside_a_text_is_a_text() {
    assert_eq!(text(r#"{"messages": null, "text": "plain"}"#), "plain");
}

#[test]
fn tools_are_a_list_or_json_text_of_one() {
    let with = |tools: &str| {
        conversation(&format!(r#"{{"messages": [{{"role": "user"}}], "tools": {tools}}}"#)).tools
    };
    assert_eq!(with(r#"[{"name": "f"}]"#), with(r#""[{\"name\": \"f\"}]""#));
    assert_eq!(with("null"), None);
    assert_eq!(with(r#""""#), None);
}

#[test]
fn fields_are_read_under_the_names_given() {
    let fields = Fields([(Part::Text, "body".to_owned())].into());
    let record = read(br#"{"text": "no", "body": "yes"}"#, &fields).expect("a record");
    assert!(matches!(record, Record::Text(text) if text == "yes"));
}

#[test]
fn json_is_read_as_python_reads_it() {
    let value = |json: &str| {
        let line = format!(r#"{{"messages": [{{"role": "user", "x": {json}}}]}}"#);
        conversation(&line).messages[0]["x"].clone()
    };
    assert_eq!(value("1e400"), Json::Float(f64::INFINITY));
    assert_eq!(value("-Infinity"), Json::Float(f64::NEG_INFINITY));
    assert!(matches!(value("NaN"), Json::Float(nan) if nan.is_nan()));
    assert_eq!(value("-0"), Json::Int(0));
    assert_eq!(value("9223372036854775807"), Json::Int(i64::MAX));
    assert!(matches!(value("9223372036854775808"), Json::BigInt(_)));
    assert_eq!(value(r#""\ud83d\ude00 \u0000""#), string("\u{1f600} \0"));
}

#[test]
fn of_equal_keys_the_first_place_and_the_last_value_count() {
    let read = conversation(r#"{"messages": [{"role": "a", "content": "x", "role": "user"}]}"#);
    let entries: Vec<_> =
        read.messages[0].iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    assert_eq!(entries, [("role".to_owned(), string("user")), ("content".to_owned(), string("x"))]);
}

#[test]
fn what_is_not_json_is_refused() {
    for line in [
        r#"{"text": "a""#,
        "{'text': 'a'}",
        r#"{"text": "a",}"#,
        r#"{"text": "a"} x"#,
        "01",
        "\"\t\"",
        "nul",
    ] {
        refused(line, Reason::InvalidJson, "column");
    }
}

#[test]
fn what_is_not_utf8_is_refused() {
    refused(b"{\"text\": \"\xff\"}", Reason::InvalidUtf8, "byte 11");
}

#[test]
fn half_a_surrogate_pair_is_refused() {
    for text in [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\ud800"] {
        refused(format!(r#"{{"text": "{text}"}}"#), Reason::LoneSurrogate, "surrogate");
    }
}

#[test]
fn nesting_past_the_stated_depth_is_refused() {
    let nested = |depth: usize| {
        format!(r#"{{"text": "a", "x": {}{}}}"#, "[".repeat(depth), "]".repeat(depth))
    };
    assert_eq!(text(&nested(MAX_DEPTH - 1)), "a");
    refused(nested(MAX_DEPTH), Reason::TooDeep, "200");
    refused(nested(1_000_000), Reason::TooDeep, "200");
}

#[test]
fn other_faults_are_told_apart() {
    refused("7", Reason::NotAnObject, "found an integer");
    refused("[1]", Reason::NotAnObject, "found a list");
    refused(r#"{"prompt": "a"}"#, Reason::NoContent, "found `prompt`");
    refused(r#"{"text": 5}"#, Reason::WrongType, "`text` must be a string, found an integer");
    refused(r#"{"text": ""}"#, Reason::Empty, "`text` is empty");
    refused(r#"{"messages": []}"#, Reason::Empty, "holds no message");
    refused(r#"{"messages": {}}"#, Reason::WrongType, "a list of messages");
    refused(r#"{"messages": ["hi"]}"#, Reason::WrongType, "messages[0]");
    refused(r#"{"messages": [{"content": "a"}]}"#, Reason::WrongType, "messages[0].role");
    refused(
        r#"{"messages": [{"role": "user", "content": 5}]}"#,
        Reason::WrongType,
        "messages[0].content",
    );
    refused(
        r#"{"conversations": [{"from": "robot", "value": "a"}]}"#,
        Reason::UnknownRole,
        "`robot`",
    );
    refused(r#"{"conversations": [{"from": "gpt"}]}"#, Reason::WrongType, "conversations[0].value");
    refused(
        r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}"#,
        Reason::NotText,
        "`image_url`",
    );
    refused(
        r#"{"messages": [{"role": "user"}], "tools": "[1"}"#,
        Reason::InvalidJson,
        "`tools` is a string but not JSON",
    );
    refused(r#"{"messages": [{"role": "user"}], "tools": [1]}"#, Reason::WrongType, "tools[0]");
    refused(
        r#"{"messages": [{"role": "user"}], "chat_template_kwargs": 1}"#,
        Reason::WrongType,
        "chat_template_kwargs",
    );
}

#[test]
fn a_record_that_says_what_another_shape_is_told_by_is_of_another_shape() {
    let fields = Fields::default();
    let expected = expecting(&fields);
    let read = |lines: [&str; 2], expected: ShapeOptions<'_>| {
        let raw = lines.map(|line| RawContent::Json(line.as_bytes()));
        let shape = find_shape(raw, expected).expect("a shape").shape;
        record::read(raw[1], Some(&shape), expected, MessageForms::ALL).map(drop)
    };
    let text = r#"{"text": "a"}"#;
    let both = r#"{"text": "a", "messages": [{"role": "user", "content": "b"}]}"#;
    let fault = read([text, both], expected).expect_err("another shape");
    assert_eq!(fault.reason, Reason::OtherShape);
    assert!(fault.message.contains("`conversations` (`messages`)"), "{}", fault.message);
    let silent = r#"{"text": "a", "messages": null, "prompt": "no completion"}"#;
    assert!(read([text, silent], expected).is_ok());
    assert!(read([silent, both], expected).is_err());
    let named = ShapeOptions { shape: Some(ShapeName::Text), ..expected };
    assert!(read([text, both], named).is_ok());
}

#[test]
fn fields_that_say_nothing_tell_no_other_shape() {
    let fields = Fields::default();
    let expected = expecting(&fields);
    let first = r#"{"text": "a"}"#;
    for line in [
        r#"{"text": "a", "messages": []}"#,
        r#"{"text": "a", "prompt": "b", "completion": " "}"#,
        r#"{"text": "a", "question": null, "answer": "b"}"#,
    ] {
        let raw = [first, line].map(|line| RawContent::Json(line.as_bytes()));
        let shape = find_shape(raw, expected).expect("a shape").shape;
        assert!(record::read(raw[1], Some(&shape), expected, MessageForms::ALL).is_ok(), "{line}");
    }
}

#[test]
fn a_column_that_no_json_can_hold_tells_no_other_shape() {
    use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};

    let fields = Fields::default();
    let expected = expecting(&fields);
    let binary = || Arc::new(BinaryArray::from(vec![&b"x"[..], b"y"])) as ArrayRef;
    let texts = || Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
    let late = || Arc::new(StringArray::from(vec![None, Some("b")])) as ArrayRef;
    let read = |columns: Vec<(&str, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).expect("a table");
        let raw = [0, 1].map(|row| RawContent::Row { batch: &batch, row });
        let shape = find_shape(raw, expected).expect("a shape").shape;
        record::read(raw[1], Some(&shape), expected, MessageForms::ALL).map(drop)
    };
    assert!(read(vec![("text", texts()), ("prompt", texts()), ("answer", binary())]).is_ok());
    for columns in [
        vec![("text", texts()), ("question", late()), ("answer", late())],
        vec![("text", texts()), ("prompt", texts()), ("answer", late())],
    ] {
        let fault = read(columns);
        assert_eq!(fault.map_err(|fault| fault.reason), Err(Reason::OtherShape));
    }
}

#[test]
fn prompts_of_a_file_are_texts_or_lists() {
    let fields = Fields::default();
    let expected = expecting(&fields);
    let text = r#"{"prompt": "a", "completion": "b"}"#;
    let list = r#"{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}"#;
    for (first, second, said) in [(text, list, "is a list"), (list, text, "is a text")] {
        let raw = [first, second].map(|line| RawContent::Json(line.as_bytes()));
        let shape = find_shape(raw, expected).expect("a shape").shape;
        let read = |raw| record::read(raw, Some(&shape), expected, MessageForms::ALL);
        assert!(read(raw[0]).is_ok());
        let fault = read(raw[1]).expect_err("another shape");
        assert_eq!(fault.reason, Reason::OtherShape);
        assert!(fault.message.contains(said), "{}", fault.message);
    }
    let raw =
        [r#"{"prompt": 5, "completion": "b"}"#, text].map(|line| RawContent::Json(line.as_bytes()));
    let shape = find_shape(raw, expected).expect("a shape").shape;
    assert!(record::read(raw[1], Some(&shape), expected, MessageForms::ALL).is_ok());
}
