//! The fast reader gives the same as reading a line in the general way, and reads nothing that it refuses.

use std::sync::Arc;

use fastpack_core::config::{DocumentKind, Fields};
use fastpack_core::json::{Json, Map};
use fastpack_core::record::{
    self, Conversation, MessageForms, Record, ReplayReader, Shape, ShapeOptions, find_shape,
    read_text_fast,
};
use fastpack_core::source::RawContent;
use proptest::prelude::*;

fn read(line: &str, shape: &Shape) -> Option<Record> {
    let expected = ShapeOptions {
        shape: None,
        fields: &Fields::default(),
        shapes: DocumentKind::Texts.shapes(),
    };
    record::read(RawContent::Json(line.as_bytes()), Some(shape), expected, MessageForms::ALL).ok()
}

fn shape_of(line: &str) -> Shape {
    let expected = ShapeOptions {
        shape: None,
        fields: &Fields::default(),
        shapes: DocumentKind::Texts.shapes(),
    };
    find_shape([RawContent::Json(line.as_bytes())], expected).expect("a record").shape
}

fn texts() -> Shape {
    shape_of(r#"{"text": "x"}"#)
}

/// The content of a conversation, by any reader.
#[derive(Debug, PartialEq)]
struct Said {
    roles: Vec<String>,
    /// Each text with its message and key.
    texts: Vec<(usize, String, String)>,
    /// Each value that is no text, with its message and key.
    values: Vec<(usize, String, Json)>,
    tools: Option<Json>,
    weights: Option<Vec<Option<f32>>>,
}

fn read_fast(reader: &mut ReplayReader, line: &str) -> Option<Said> {
    reader.read(line.as_bytes(), &Shape::conversations()).then(|| held(reader))
}

fn held(reader: &ReplayReader) -> Said {
    let texts = reader.places().zip(reader.ranges()).map(|((message, key), range)| {
        (message, key.to_owned(), reader.decoded()[range.clone()].to_owned())
    });
    let (mut values, mut tools) = (Vec::new(), None);
    for (place, value) in reader.value_places().zip(reader.values()) {
        match place {
            Some((message, key)) => values.push((message, key.to_owned(), value.clone())),
            None => tools = Some(value.clone()),
        }
    }
    Said {
        roles: reader.roles().map(str::to_owned).collect(),
        texts: texts.collect(),
        values,
        tools,
        weights: reader.weights().map(<[Option<f32>]>::to_vec),
    }
}

fn said(conversation: &Conversation) -> Said {
    let role = |message: &Arc<Map>| match &message["role"] {
        Json::String(role) => role.to_string(),
        other => panic!("the role is {other:?}"),
    };
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    for (number, message) in conversation.messages.iter().enumerate() {
        for (key, value) in message.iter() {
            match value {
                _ if &**key == "role" => {}
                Json::Null => {}
                Json::String(text) => texts.push((number, key.to_string(), text.to_string())),
                other => values.push((number, key.to_string(), other.clone())),
            }
        }
    }
    Said {
        roles: conversation.messages.iter().map(role).collect(),
        texts,
        values,
        tools: conversation.tools.clone(),
        weights: conversation.weights.clone(),
    }
}

/// Strings of JSON, good ones and bad.
fn string() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z ]{0,8}".prop_map(|text| text),
        prop::sample::select(vec![
            "\\n",
            "\\\"",
            "\\\\",
            "\\/",
            "\\b",
            "\\f",
            "\\r",
            "\\t",
            "\\u0041",
            "\\u00e9",
            "\\u65E5",
            "\\ud83d\\ude00",
            "é日🎉",
            "\u{2028}",
            "\u{7f}",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            "\\ud83d",
            "\\ude00",
            "\\ud83dx",
            "\\ud83d\\n",
            "\\ud83d\\u0041",
            "\\u12",
            "\\u+123",
            "\\x",
            "\n",
            "\t",
            "\u{1}",
            "\\",
            "\"",
            "\\u000g",
            "\\U0041",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

/// Values of JSON that no conversation needs, good ones and bad.
fn other() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "null", "true", "false", "0", "-0", "1.5", "1e5", "-1E-2", "NaN", "Infinity", "-Infinity",
            "[{\"type\": \"text\", \"text\": \"x\"}]", "[{\"a\": 1}]", "\"[{\\\"a\\\": [1]}]\"", "\" \"", "{\"a\": 1}",
            "123456789012345678901234567890", "[]", "{}", "[1, {\"a\": [null]}]", "{\"a\": 1, \"a\": 2}", "\"\"",
        ]),
        1 => prop::sample::select(vec![
            "nul", "nan", "01", "1.", ".5", "+1", "1e", "--1", "[1,]", "{\"a\"}", "{a: 1}", "[1 2]", "'a'", "tru",
            "\"\\ud800\"", "[\"\\udfff\"]", "{\"\\ud800\": 1}", "nulll", "[", "{", "-", "[\"\t\"]", "1 2", "[01]",
            "[1.]", "[\"\\x\"]", "[-]", "[1e]", "[.5]", "", "[NaN, -Infinity]", "[+1]", "[Nan]",
        ]),
    ]
    .prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "\"role\"", "\"content\"", "\"from\"", "\"value\"", "\"name\"", "\"thinking\"", "\"reasoning\"", "\"train\"",
            "\"weight\"",
        ])
        .prop_map(str::to_owned),
        1 => string(),
    ]
}

fn role() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "\"user\"",
        "\"assistant\"",
        "\"system\"",
        "\"human\"",
        "\"gpt\"",
        "\"function_call\"",
        "\"tool\"",
        "\"critic\"",
        "\"us\\u0065r\"",
        "null",
    ])
    .prop_map(str::to_owned)
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "\t", "\r", "\n ", "\u{b}"])
}

fn object(entries: impl Strategy<Value = (String, String)>) -> impl Strategy<Value = String> {
    (prop::collection::vec(entries, 0..5), space(), space()).prop_map(|(entries, before, after)| {
        let entries: Vec<String> = entries
            .iter()
            .map(|(key, value)| format!("{before}{key}{after}:{before}{value}"))
            .collect();
        format!("{{{}{after}}}", entries.join(","))
    })
}

fn message() -> impl Strategy<Value = String> {
    let good = (role(), string())
        .prop_map(|(role, text)| format!("{{\"role\": {role}, \"content\": {text}}}"));
    let sharegpt = (role(), string())
        .prop_map(|(role, text)| format!("{{\"from\": {role}, \"value\": {text}}}"));
    let value = prop_oneof![3 => string(), 2 => role(), 1 => other()];
    prop_oneof![3 => good, 2 => sharegpt, 2 => object((key(), value)), 1 => other()]
}

fn line() -> impl Strategy<Value = String> {
    let messages = (prop::collection::vec(message(), 0..4), space())
        .prop_map(|(messages, space)| format!("[{}{space}]", messages.join(",")));
    let field = prop_oneof![
        4 => (Just("\"messages\"".to_owned()), messages),
        1 => (Just("\"text\"".to_owned()), string()),
        1 => (Just("\"tools\"".to_owned()), other()),
        1 => (Just("\"system\"".to_owned()), prop_oneof![string(), other()]),
        1 => (Just("\"chat_template_kwargs\"".to_owned()), other()),
        3 => (key(), prop_oneof![string(), other()]),
    ];
    let ends = prop::sample::select(vec!["", "", "", "", " ", "\r", "x", "{}", ","]);
    (object(field), ends).prop_map(|(object, end)| object + end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_conversation_that_the_fast_reader_takes_is_read_alike(lines in prop::collection::vec(line(), 1..4)) {
        let mut reader = ReplayReader::default();
        for line in lines {
            if let Some(read_fast) = read_fast(&mut reader, &line) {
                let Some(Record::Conversation(conversation)) = read(&line, &Shape::conversations()) else {
                    panic!("{line:?} is read fast, but refused");
                };
                // A value that is no number is equal to nothing.
                if !line.contains("NaN") {
                    prop_assert_eq!(read_fast, said(&conversation), "{}", line);
                }
            }
        }
    }

    #[test]
    fn a_conversation_that_is_taken_holds_what_was_read(lines in prop::collection::vec(line(), 1..4)) {
        let mut reader = ReplayReader::default();
        for line in lines {
            let outline = reader.read(line.as_bytes(), &Shape::conversations()).then(|| reader.outline().to_vec());
            let Some(Record::Conversation(conversation)) = read(&line, &Shape::conversations()) else { continue };
            prop_assert!(reader.take(&conversation), "{}", line);
            if !line.contains("NaN") {
                prop_assert_eq!(held(&reader), said(&conversation), "{}", line);
            }
            // Tools and arguments stand where they are written in the one, and behind the messages in the other.
            if let Some(outline) = outline
                && conversation.tools.is_none()
                && !line.contains("chat_template_kwargs")
            {
                prop_assert_eq!(reader.outline(), outline, "{}", line);
            }
        }
    }

    #[test]
    fn a_text_that_the_fast_reader_takes_is_read_alike(line in line()) {
        let mut out = "before".to_owned();
        if read_text_fast(line.as_bytes(), &texts(), &mut out) {
            match read(&line, &texts()) {
                Some(Record::Text(text)) => prop_assert_eq!(&out["before".len()..], text),
                other => panic!("{line:?} is read fast, but read as {other:?}"),
            }
        } else {
            prop_assert_eq!(out, "before");
        }
    }
}

#[test]
fn ordinary_lines_are_read_fast() {
    let mut reader = ReplayReader::default();
    for line in [
        r#"{"messages": [{"role": "user", "content": "a\n"}, {"role": "assistant", "content": "b"}]}"#,
        r#"{"id": [1, {"a": null}], "messages": [{"content": "", "role": "critic", "name": "n"}], "tools": null}"#,
        r#" {"messages":[{"from":"human","value":"x"},{"from":"gpt","value":"\ud83d\ude00"}],"x":NaN} "#,
        r#"{"messages": [{"role": "user", "content": null, "tool_calls": null}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": [{"name": "f"}]}"#,
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"id": 1}], "weight": 0.5}], "tools": "[]"}"#,
        r#"{"chat_template_kwargs": {"enable_thinking": false}, "messages": [{"role": "assistant", "train": true}]}"#,
    ] {
        assert!(read_fast(&mut reader, line).is_some(), "{line}");
    }
    let mut out = String::new();
    assert!(read_text_fast(br#"{"meta": {"a": [1.5]}, "text": "\tx"}"#, &texts(), &mut out));
    assert_eq!(out, "\tx");
}

#[test]
fn tools_that_are_written_alike_are_the_same() {
    let mut reader = ReplayReader::default();
    let line = |tools: &str, end: &str| {
        format!(r#"{{"tools": {tools}, "messages": [{{"role": "user", "content": "a"}}]{end}}}"#)
    };
    for tools in ["[]", "[{}]", "[{}]", r#""[{}]""#, r#"[{"a": 1}]"#, "[]"] {
        let found = read_fast(&mut reader, &line(tools, "")).expect("tools are read fast");
        let Some(Record::Conversation(read)) = read(&line(tools, ""), &Shape::conversations())
        else {
            panic!("{tools} is refused")
        };
        assert_eq!(found, said(&read));
    }
    assert!(read_fast(&mut reader, &line("[]", r#", "tools": null"#)).is_none());
    assert!(read_fast(&mut reader, &line("5", "")).is_none());
}

#[test]
fn equal_outlines_are_conversations_that_differ_in_their_texts_alone() {
    let mut reader = ReplayReader::default();
    let mut outline = |line: &str| {
        assert!(reader.read(line.as_bytes(), &Shape::conversations()), "{line}");
        reader.outline().to_vec()
    };
    let first = outline(r#"{"messages": [{"role": "user", "content": "a"}]}"#);
    assert_eq!(
        first,
        outline(r#"{"x": 1, "messages": [{"role": "user", "content": "b", "name": null}]}"#)
    );
    assert_eq!(first, outline(r#"{"messages": [{"from": "human", "value": "b"}]}"#));
    for other in [
        r#"{"messages": [{"role": "user", "content": [{"text": "a"}]}]}"#,
        r#"{"messages": [{"role": "user", "content": "a", "n": 1}]}"#,
        r#"{"messages": [{"role": "user", "content": "a", "train": null}]}"#,
        r#"{"messages": [{"role": "user", "content": "a"}], "tools": []}"#,
        r#"{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {}}"#,
        r#"{"messages": [{"role": "tool", "content": "a"}]}"#,
        r#"{"messages": [{"role": "user", "thinking": "a"}]}"#,
        r#"{"messages": [{"content": "a", "role": "user"}]}"#,
        r#"{"messages": [{"role": "user", "content": "a"}, {"role": "user"}]}"#,
        r#"{"messages": [{"role": "user"}, {"role": "user", "content": "a"}]}"#,
    ] {
        assert_ne!(first, outline(other), "{other}");
    }
}

#[test]
fn a_prompt_tells_conversations_apart() {
    let line = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#;
    let Some(Record::Conversation(whole)) = read(line, &Shape::conversations()) else {
        panic!("the line is a conversation");
    };
    let mut reader = ReplayReader::default();
    let mut outline = |prompt: Option<usize>| {
        assert!(reader.take(&Conversation { prompt, ..whole.clone() }));
        assert_eq!(reader.prompt(), prompt);
        reader.outline().to_vec()
    };
    let outlines = [outline(None), outline(Some(1)), outline(Some(2))];
    assert_eq!(outlines[1], outline(Some(1)));
    assert!(outlines[0] != outlines[1] && outlines[1] != outlines[2]);
}

#[test]
fn messages_are_shared_with_the_record_that_they_were_read_of() {
    let text: Json = Json::String("a".into());
    let message: Map = [("role".into(), Json::String("user".into())), ("content".into(), text)]
        .into_iter()
        .collect();
    let message = Arc::new(message);
    let messages = Json::List(Arc::new(vec![Json::Map(Arc::clone(&message))]));
    let record: Map = [("messages".into(), messages)].into_iter().collect();
    let conversation = record::conversation(&record, MessageForms::ALL).expect("a conversation");
    assert!(Arc::ptr_eq(&conversation.messages[0], &message));
}
