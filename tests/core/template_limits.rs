//! The limits of a template for one conversation: every construct that could run for ever, or fill the memory.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chrono::NaiveDateTime;
use fastpack_core::Control;
use fastpack_core::config::Turns;
use fastpack_core::json::{Json, Map};
use fastpack_core::record::Conversation;
use fastpack_core::template::{ChatTemplate, TemplateContext, WantedSpans};
use proptest::prelude::*;

/// CPU time that each of these templates may take in a build with few optimisations.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of the long text that templates are given.
const LONG: usize = 1 << 14;

/// The CPU time of this thread, which other work on the machine does not change; the time of day where the system does
/// not tell it.
fn cpu_time(started: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.as_deref().and_then(|told| told.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| started.elapsed(), Duration::from_nanos)
}

fn template(source: &str) -> ChatTemplate {
    let context = TemplateContext {
        special_tokens: Vec::new(),
        special_contents: vec!["<|im_end|>".to_owned()],
        stops: Vec::new(),
        tokens: None,
        now: NaiveDateTime::default(),
        kwargs: Map::default(),
    };
    ChatTemplate::new("test", source, context).expect("the template is supported")
}

fn text(text: &str) -> Json {
    Json::String(text.into())
}

fn map(entries: Vec<(&str, Json)>) -> Map {
    entries.into_iter().map(|(key, value)| (Arc::from(key), value)).collect()
}

/// A conversation of one message, with a long text `a`, an equal one `b`, a list of 1,000 words and an object of them.
fn conversation(length: usize) -> Conversation {
    let words = (0..1_000).map(|number| format!("word{number}"));
    let object = words.clone().map(|word| (Arc::from(&*word), text("x"))).collect();
    let kwargs = map(vec![
        ("a", text(&"x".repeat(length))),
        ("b", text(&"x".repeat(length))),
        ("spaced", text(&"é ".repeat(length / 3))),
        ("words", Json::List(Arc::new(words.map(|word| text(&word)).collect()))),
        ("object", Json::Map(Arc::new(object))),
    ]);
    Conversation {
        messages: vec![Arc::new(map(vec![("role", text("user")), ("content", text("hi"))]))],
        tools: None,
        template_kwargs: kwargs,
        weights: None,
        prompt: None,
        pictures: Vec::new(),
    }
}

/// Renders a template, and tells how long that took.
fn timed(source: &str, conversation: &Conversation) -> (Result<String, String>, Duration) {
    let template = template(source);
    let started = Instant::now();
    let before = cpu_time(started);
    let rendered = template.render(conversation).map_err(|fault| fault.message);
    (rendered, cpu_time(started).saturating_sub(before))
}

/// Something done again and again, over ten thousand million times.
fn for_ever(body: &str) -> String {
    format!(
        "{{% set ns = namespace(s='xxxxxxxx', l=[1, 2], n=2) %}}\n{{% for i in range(99999) %}}\
         {{% for j in range(99999) %}}{body}{{% endfor %}}{{% endfor %}}"
    )
}

/// Operations on the long text, on the list, or on the last result: each of them without end.
const BODIES: [&str; 72] = [
    "",
    "{% if a == b %}{% endif %}",
    "{% if a < b %}{% endif %}",
    "{% if [a] == [b] %}{% endif %}",
    "{% if {'k': a} == {'k': b} %}{% endif %}",
    "{% if a in [b ~ '', b] %}{% endif %}",
    "{% if 'y' in a %}{% endif %}",
    "{% if (a[1:] ~ 'y') in a %}{% endif %}",
    "{% if 'none' in words %}{% endif %}",
    "{% if a in object %}{% endif %}",
    "{% if object.get(a) %}{% endif %}",
    "{% if object[a] %}{% endif %}",
    "{% if object == object %}{% endif %}",
    "{% if a.startswith(b) %}{% endif %}",
    "{% if a.endswith((b ~ 'y', b)) %}{% endif %}",
    "{% set t = a|length %}",
    "{% set t = a[-1] %}",
    "{% set t = a[7:-7] %}",
    "{% set t = a[::-1] %}",
    "{% set t = words[1:] %}",
    "{% set t = words[::2] %}",
    "{% set t = a.count('x') %}",
    "{% set t = a.find('y') %}",
    "{% set t = a.replace('x', 'y') %}",
    "{% set t = a.replace('', 'y') %}",
    "{% set t = a|replace('x', a) %}",
    "{% set t = a.split('x') %}",
    "{% set t = a.rsplit('x') %}",
    "{% set t = spaced.split() %}",
    "{% set t = spaced.splitlines() %}",
    "{% set t = spaced.strip('x' ~ spaced) %}",
    "{% set t = (spaced ~ 'x').strip(spaced) %}",
    "{% set t = a.removeprefix(a[7:]) %}",
    "{% set t = a|upper %}",
    "{% set t = (a ~ 'Σ')|lower %}",
    "{% set t = a.title() %}",
    "{% set t = spaced|title %}",
    "{% set t = a|capitalize %}",
    "{% set t = a|list %}",
    "{% set t = a|reverse %}",
    "{% set t = a|first ~ a|last %}",
    "{% set t = (a ~ '')|last %}",
    "{% set t = words|sort %}",
    "{% set t = object|dictsort %}",
    "{% set t = object|items|list %}",
    "{% set t = object.values()|list %}",
    "{% set t = words|map('upper')|list %}",
    "{% set t = words|select('in', words)|list %}",
    "{% set t = words|join(a) %}",
    "{% set t = words|tojson %}",
    "{% set t = object|tojson(sort_keys=true, indent=1000) %}",
    "{% set t = [words]|string %}",
    "{% set t = a|tojson %}",
    "{% set t = a|indent(1000, true) %}",
    "{% set t = (a ~ '1')|int if false else a|safe %}",
    "{% for c in a %}{% endfor %}",
    "{% for c in words if c == 'y' %}{% endfor %}",
    "{% for c in words %}{{ loop.nextitem }}{% endfor %}",
    "{% set ns.s = ns.s + ns.s %}",
    "{% set ns.s = ns.s ~ ns.s %}",
    "{% set ns.s = ns.s|replace(ns.s, ns.s ~ ns.s) %}",
    "{% set ns.s = ns.s.replace('x', 'xx') %}",
    "{% set ns.s = ns.s.join([ns.s, ns.s, ns.s]) %}",
    "{% set ns.s = [ns.s, ns.s]|join %}",
    "{% set ns.s = [ns.s, ns.s]|tojson %}",
    "{% set ns.s = (ns.s ~ '\n' ~ ns.s)|indent %}",
    "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}",
    "{% set ns.l = ns.l + ns.l %}",
    "{% set ns.l = (ns.s * 100000)|list %}",
    "{{ ns.s * 100000 }}",
    "{% set ns.n = ns.n * ns.n %}",
    "{% set ns.n = strftime_now(a) %}",
];

/// Endless constructs that are no loop in a loop, or need something before it.
const OTHERS: [&str; 11] = [
    "{% set ns = namespace(x=['x' * 100000]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=['x' * 100000]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
    "{% set ns = namespace(x=['x'], y=['x']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}\
     {% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "{% set ns = namespace(x=['x'], y=['x']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}\
     {% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x in [ns.y] }}",
    "{% macro m(d) %}{% if d %}{{ m(d - 1) }}{{ m(d - 1) }}{% endif %}{% endmacro %}{{ m(50) }}",
    "{% macro m(d) %}{% if d %}{{ m(d - 1) ~ m(d - 1) }}{% else %}{{ a }}{% endif %}{% endmacro %}{{ m(50) }}",
    "{% macro m(d, s) %}{% if d %}{{ m(d - 1, s ~ s) }}{% endif %}{% endmacro %}{{ m(50, a) }}",
    "{% for x in words %}{% for y in words %}{% for z in words %}{{ x }}{% endfor %}{% endfor %}{% endfor %}",
    "{% for x in words if x in words and words|sort %}{% endfor %}",
    "{% for x in words %}{{ words|map('string')|join|length }}{{ loop.revindex }}{% endfor %}",
    "{% for x in words|select('in', words) %}{% for y in words|reject('in', words) %}{% endfor %}{{ words|tojson }}{% endfor %}",
];

#[test]
fn whatever_is_done_without_end_is_given_up_with_its_line() {
    let conversation = conversation(LONG);
    let mut slow = Vec::new();
    for body in BODIES {
        let (rendered, took) = timed(&for_ever(body), &conversation);
        let message = rendered.expect_err(body);
        let is_limit = message.contains("more work than") || message.contains("more memory than");
        let is_refused = body.contains("ns.n") && message.contains("is refused");
        assert!(is_limit || is_refused, "{body}: {message}");
        assert!(message.contains("line 2"), "{body}: {message}");
        slow.extend((took > PATIENCE).then_some((body, took)));
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn what_grows_without_a_loop_in_a_loop_is_given_up_or_done_soon() {
    let conversation = conversation(LONG);
    for source in OTHERS {
        let (rendered, took) = timed(source, &conversation);
        if let Err(message) = rendered {
            let is_limit =
                message.contains("more work than") || message.contains("more memory than");
            assert!(is_limit, "{source}: {message}");
        }
        assert!(took < PATIENCE, "{source}: {took:?}");
    }
}

/// Operations that take long for a text of 32 MiB, many of them a single one.
const LONG_BODIES: [&str; 14] = [
    "{% if a == b %}{% endif %}",
    "{% if (a[1:] ~ 'y') in a %}{% endif %}",
    "{% set t = a.count('x') %}",
    "{% set t = a.replace('x', 'y') %}",
    "{% set t = a|upper|lower %}",
    "{% set t = a|tojson %}",
    "{% set t = [spaced]|string %}",
    "{% set t = spaced.split(' ') %}",
    "{% set t = spaced.rsplit(' ') %}",
    "{% set t = a.title() %}",
    "{% set t = a|replace('x', 'yy') %}",
    "{% set t = words|sort %}",
    "{% for c in a %}{% endfor %}",
    "{% for x in words %}{% for y in words %}{% endfor %}{% endfor %}",
];

#[test]
fn a_run_that_is_cancelled_is_heard_within_a_long_render() {
    let conversation = conversation(LONG << 11);
    let heard_after = |body: &str| {
        let control = Arc::new(Control::default());
        let template = template(&for_ever(body)).with_control(Arc::clone(&control));
        let cancelled = thread::scope(|scope| {
            let cancelling = scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                control.cancel();
                Instant::now()
            });
            let rendered = template.render(&conversation).map_err(|fault| fault.message);
            let ended = Instant::now();
            let message = rendered.expect_err(body);
            assert!(message.contains("the run was cancelled"), "{body}: {message}");
            cancelling.join().map(|cancelled| ended.saturating_duration_since(cancelled))
        });
        cancelled.expect("the thread does not panic")
    };
    for body in LONG_BODIES {
        // Others may have the processor meanwhile.
        let soonest = (0..4).map(|_| heard_after(body)).find(|it| *it < Duration::from_millis(500));
        assert!(soonest.is_some(), "{body}");
    }
}

#[test]
fn trying_programs_out_takes_no_more_than_the_many_tiny_renders_may() {
    for source in [
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}".to_owned(),
        "{% for i in range(20000) %}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}"
            .to_owned(),
        for_ever("{% set ns.s = ns.s ~ ns.s %}"),
    ] {
        let template = template(&source);
        let started = Instant::now();
        let before = cpu_time(started);
        for wanted in
            [WantedSpans::Text, WantedSpans::Spans, WantedSpans::LastTurn, WantedSpans::Turns]
        {
            let _ = template.replays(wanted, Turns::Auto);
        }
        let took = cpu_time(started).saturating_sub(before);
        assert!(took < 10 * PATIENCE, "{source}: {took:?}");
    }
}

#[test]
fn what_is_dropped_gives_its_memory_back() {
    // In all, 200 MB of texts are made, but no two of them are there at once.
    let source = "{% set ns = namespace(s='') %}{% for i in range(200) %}{% set ns.s = a ~ i %}{% endfor %}{{ ns.s|length }}";
    let (rendered, _) = timed(source, &conversation(LONG << 6));
    assert_eq!(rendered.as_deref(), Ok("1048579"));
}

#[test]
fn a_long_conversation_may_take_more_than_a_short_one() {
    // For each message, all of them are visited.
    let source =
        "{% for m in messages %}{% for n in messages %}{% endfor %}{{ m.content }}{% endfor %}";
    let message = Arc::new(map(vec![("role", text("user")), ("content", text(&"x".repeat(400)))]));
    let of = |messages: usize| Conversation {
        messages: std::iter::repeat_n(Arc::clone(&message), messages).collect(),
        ..conversation(1)
    };
    let (rendered, _) = timed(source, &of(2000));
    assert_eq!(rendered.map(|text| text.len()), Ok(800_000));
    let (rendered, _) = timed(
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        &of(1),
    );
    assert!(rendered.is_err());
}

/// An expression over the long text, the list and the results of loops.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a", "b", "spaced", "words", "object", "i", "'x'", "ns.s", "[a, b]", "2",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 12, 3, |inner| {
        let binary =
            prop::sample::select(vec![" ~ ", " + ", " * ", " == ", " in ", " < ", " and "]);
        let after = prop::sample::select(vec![
            "|upper",
            "|list",
            "|join",
            "|tojson",
            "|string",
            "|sort",
            "|length",
            "|reverse|list",
            "|indent",
            "|replace('x', 'yy')",
            "|title",
            "|capitalize",
            "|trim('x')",
            "|map('string')|list",
            "|first",
            "|last",
            "[1:]",
            "[::-1]",
            ".split('x')",
            ".count('x')",
            ".strip('x')",
            ".splitlines()",
            "|dictsort",
            "|items|list",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone())
                .prop_map(|(left, operator, right)| format!("({left}{operator}{right})")),
            (inner, after).prop_map(|(value, after)| format!("({value}){after}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_expression_takes_longer_than_the_limit(first in expression(), second in expression()) {
        let source = format!(
            "{{% set ns = namespace(s='x') %}}{{% for i in range(99999) %}}\
             {{% set ns.s = {first} %}}{{% if {second} %}}{{% endif %}}{{% endfor %}}"
        );
        let (_, took) = timed(&source, &conversation(LONG));
        prop_assert!(took < PATIENCE, "{}: {:?}", source, took);
    }
}
