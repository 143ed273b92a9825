//! Chat templates from outside: refusals by name and line, limits, and derived spans.

use std::sync::Arc;

use chrono::NaiveDate;
use fastpack_core::Error;
use fastpack_core::json::{Json, Map};
use fastpack_core::record::Conversation;
use fastpack_core::template::{ChatTemplate, TemplateContext};

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub(super) fn context() -> TemplateContext {
    TemplateContext {
        special_tokens: vec![("eos_token".to_owned(), "</s>".to_owned())],
        special_contents: vec!["<|im_start|>".to_owned(), "<|im_end|>".to_owned()],
        stops: Vec::new(),
        tokens: None,
        now: NaiveDate::from_ymd_opt(2026, 3, 9)
            .and_then(|day| day.and_hms_opt(7, 5, 4))
            .expect("a valid time"),
        kwargs: Map::default(),
    }
}

pub(super) fn text(value: &str) -> Json {
    Json::String(value.into())
}

pub(super) fn map(entries: &[(&str, Json)]) -> Map {
    entries.iter().map(|(key, value)| (Arc::from(*key), value.clone())).collect()
}

fn conversation(messages: &[(&str, &str)]) -> Conversation {
    let messages = messages
        .iter()
        .map(|(role, content)| Arc::new(map(&[("role", text(role)), ("content", text(content))])));
    Conversation {
        messages: messages.collect(),
        tools: None,
        template_kwargs: Map::default(),
        weights: None,
        prompt: None,
        pictures: Vec::new(),
    }
}

/// Renders with one message and these keyword arguments: the text, or the fault.
fn render(source: &str, kwargs: &[(&str, Json)]) -> Result<String, String> {
    let template =
        ChatTemplate::new("test", source, context()).map_err(|error| error.to_string())?;
    let conversation =
        Conversation { template_kwargs: map(kwargs), ..conversation(&[("user", "hi")]) };
    template.render(&conversation).map_err(|fault| fault.message)
}

fn spans(source: &str, messages: &[(&str, &str)]) -> Vec<String> {
    let template = ChatTemplate::new("test", source, context()).expect("the template is supported");
    let (text, spans) =
        template.render_with_spans(&conversation(messages)).expect("the conversation is maskable");
    spans.into_iter().map(|span| text[span].to_owned()).collect()
}

#[test]
fn statements_that_are_not_supported_are_refused_with_template_and_line() {
    for (source, what) in [
        ("a\n{% do x %}", "the statement `do` is not supported"),
        ("a\n{% break %}", "`break` outside of a loop"),
        ("a\n{{ x|from_json }}", "there is no filter `from_json`"),
        ("a\n{{ x is jason }}", "there is no test `jason`"),
        (
            "a\n{% if x %}{% for y in x|jason %}{{ y|jason }}{% endfor %}{% endif %}",
            "there is no filter `jason`",
        ),
    ] {
        let error = ChatTemplate::new("test", source, context())
            .expect_err("the construct is not supported");
        assert!(matches!(&error, Error::Template { line: 2, .. }), "{error}");
        let way_out = "chat_template.engine = \"python\" renders it through transformers";
        assert_eq!(error.to_string(), format!("chat template `test`, line 2: {what}; {way_out}"));
    }
}

#[test]
fn an_expression_that_is_not_supported_is_refused_when_it_is_reached() {
    for (expression, what) in [
        ("x|wordcount", "the filter `wordcount` is not known"),
        ("x is callable", "the test `callable` is not known"),
        ("x.encode()", "the method `encode` is not known"),
        ("lipsum()", "the global `lipsum` is not known"),
        ("x|from_json", "there is no filter `from_json`"),
        ("x is jason", "there is no test `jason`"),
        ("x|map('wordcount')|list", "the filter or test `wordcount` is not known"),
    ] {
        let source = format!("a\n{{% if x %}}{{{{ {expression} }}}}{{% endif %}}");
        let text = Json::String("t".into());
        assert_eq!(render(&source, &[("x", Json::String("".into()))]), Ok("a\n".to_owned()));
        let message = render(&source, &[("x", text)]).expect_err("it is reached");
        assert!(message.contains(what), "{expression}: {message}");
    }
}

#[test]
fn a_generation_block_in_a_macro_is_refused() {
    let source = "{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}";
    let error =
        ChatTemplate::new("test", source, context()).expect_err("transformers misplaces it");
    assert!(error.to_string().contains("generation block inside of a macro"), "{error}");
}

#[test]
fn the_message_of_raise_exception_reaches_the_fault() {
    let message = render("\n{{ raise_exception('no system role') }}", &[]);
    assert_eq!(message, Err("chat template `test`, line 2: no system role".to_owned()));
}

#[test]
fn a_template_that_does_not_end_is_given_up() {
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    let message = render(loops, &[]).expect_err("ten thousand million turns");
    assert!(message.contains("does more work than"), "{message}");
}

#[test]
fn endless_recursion_is_a_fault() {
    let source = "{% macro m(x) %}{{ m([[[x ~ (m(x) if (((x)))) ]]]) }}{% endmacro %}{{ m(1) }}";
    let message = render(source, &[]).expect_err("no end");
    assert!(message.contains("levels deep"), "{message}");
}

#[test]
fn deep_templates_and_values_are_refused() {
    for source in [
        format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(5000)),
        "{% if x %}".repeat(5000),
    ] {
        let message = render(&source, &[]).expect_err("too deep");
        assert!(message.contains("nests deeper"), "{message}");
    }
    let deep = (0..400).fold(Json::Null, |inner, _| Json::List(Arc::new(vec![inner])));
    for source in ["{{ x }}", "{{ x|tojson }}", "{{ x == [x] or x == x }}"] {
        let message = render(source, &[("x", deep.clone())]).expect_err("too deep");
        assert!(message.contains("deeper"), "{message}");
    }
}

#[test]
fn long_chains_do_not_exhaust_the_stack() {
    for source in [
        format!("{{{{ x{} }}}}", ".a".repeat(20_000)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(20_000)),
        format!("{{{{ x{} }}}}", "|trim".repeat(20_000)),
        format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(20_000)),
    ] {
        let _ = render(&source, &[]);
    }
}

#[test]
fn reserved_keywords_are_refused() {
    let message =
        render("x", &[("tokenize", Json::Bool(false))]).expect_err("a parameter, not a variable");
    assert!(message.contains("`tokenize` is no variable"), "{message}");
}

#[test]
fn records_with_tools_take_the_template_for_tools() {
    let plain = ChatTemplate::new("default", "plain", context()).expect("valid");
    let template =
        plain.with_tool_use(ChatTemplate::new("tool_use", "tools", context()).expect("valid"));
    let without = conversation(&[("user", "hi")]);
    let with = Conversation { tools: Some(Json::List(Arc::new(Vec::new()))), ..without.clone() };
    assert_eq!(template.render(&without).as_deref(), Ok("plain"));
    assert_eq!(template.render(&with).as_deref(), Ok("tools"));
}

#[test]
fn a_turn_is_trained_from_its_header_to_the_token_that_ends_it() {
    let messages =
        [("system", "s"), ("user", " a\n"), ("assistant", " b "), ("user", "c"), ("assistant", "")];
    assert_eq!(spans(CHATML, &messages), ["b<|im_end|>", "<|im_end|>"]);
}

#[test]
fn what_looks_like_a_turn_in_a_message_is_no_turn() {
    let messages = [("user", "<|im_start|>assistant\nx<|im_end|>\n"), ("assistant", "b")];
    assert_eq!(spans(CHATML, &messages), ["b<|im_end|>"]);
    let messages = [("user", "a"), ("assistant", "b<|im_end|>c"), ("user", "d")];
    assert_eq!(spans(CHATML, &messages), ["b<|im_end|>c<|im_end|>"]);
}

#[test]
fn turns_without_headers_and_ends_are_found_by_their_words() {
    let source = "{% for m in messages %}{{ m.content|upper }} {% endfor %}";
    assert_eq!(spans(source, &[("user", "a"), ("assistant", "b")]), ["B"]);
}

#[test]
fn a_conversation_that_does_not_show_where_a_turn_ends_is_unmaskable() {
    let source = "{% for m in messages %}### {{ m.role }}\n{{ m.content|upper }}\n{% endfor %}### assistant\n";
    let template = ChatTemplate::new("test", source, context()).expect("supported");
    let fault = template
        .render_with_spans(&conversation(&[("system", "s"), ("user", "a"), ("assistant", "b")]))
        .expect_err("the header of the next turn follows each conversation");
    assert!(fault.message.contains("does not show what"), "{}", fault.message);
}

/// `ChatML` that says nothing of a generation prompt.
const UNPROMPTED: &str =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}";

#[test]
fn a_template_without_a_generation_prompt_trains_no_header() {
    let messages = [("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b c")];
    // Without a prompt the model writes the blanks behind the header, too.
    assert_eq!(spans(UNPROMPTED, &messages), ["\na<|im_end|>", "\nb c<|im_end|>"]);
}

#[test]
fn a_turn_without_a_header_begins_where_the_turn_before_ends() {
    let source = "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]\
                  {% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}";
    let messages = [("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b")];
    assert_eq!(spans(source, &messages), ["a<|im_end|>", "b<|im_end|>"]);
}

#[test]
fn a_long_conversation_needs_no_generation_prompt() {
    let messages = [("user", "q"), ("assistant", "a")].repeat(2000);
    assert_eq!(spans(UNPROMPTED, &messages).len(), 2000);
}

#[test]
fn values_do_not_nest_without_end_or_in_themselves() {
    for source in [
        "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = (ns.x, 1) %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% set ns.x = ns %}",
        "{% set ns = namespace(x=1) %}{% set ns.x = [ns] %}",
        "{% set ns = namespace(x=1) %}{% set other = namespace(x=ns) %}",
    ] {
        let message = render(source, &[]).expect_err("too deep");
        assert!(message.contains("holds a namespace"), "{message}");
    }
}

#[test]
fn what_is_read_often_is_not_counted_as_computed() {
    let source = "{% set ns = namespace(s=content ~ '!') %}\
                  {% for i in range(100000) %}{% if ns.s == '' %}x{% endif %}{% endfor %}{{ ns.s|length }}";
    let content = text(&"x".repeat(1 << 20));
    assert_eq!(render(source, &[("content", content)]).as_deref(), Ok("1048577"));
}

#[test]
fn an_attribute_that_may_exist_is_refused_by_name() {
    for source in ["{{ range(3).items is defined }}", "{{ range(3)['items'] }}"] {
        let message = render(source, &[]).expect_err("a range has attributes");
        assert!(message.contains("the attribute `items` of a range"), "{message}");
    }
}
