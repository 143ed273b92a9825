//! Chat templates, rendered as `transformers` renders them.
//!
//! A [`Template`] is Jinja as `transformers` runs it, with Python's semantics. A construct whose result is
//! not known to equal Python's is refused when the template is compiled. Such a value is refused during the
//! render. The crate knows JSON values, but no records, packs or training.
//!
//! | room | |
//! |---|---|
//! | [`language`] | compiles the source of a template to a tree: lexer, parser, scopes |
//! | [`values`] | Python's values: filters, tests, methods, operators, printing |
//! | [`evaluation`] | runs a tree over its inputs |
//! | [`programs`] | records a run, and replays it for inputs of the same structure |
//!
//! ```
//! use std::sync::Arc;
//!
//! use chrono::NaiveDateTime;
//! use fastpack_template::json::{Map, Json};
//! use fastpack_template::{Allowance, Input, Meter, Template};
//!
//! let source = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}";
//! let template = Template::compile(source).expect("the template is supported");
//! let text = |text: &str| Json::String(text.into());
//! let message: Map =
//!     [("role".into(), text("user")), ("content".into(), text(" Hello "))].into_iter().collect();
//! let messages = Json::List(Arc::new(vec![Json::Map(Arc::new(message))]));
//! let input = |name: &str| (name == "messages").then_some(Input::Json(&messages));
//! let meter = Meter::new(Allowance::RECORD, &|| 0, None);
//! let output = template.render(NaiveDateTime::default(), input, None, &meter);
//! assert_eq!(output.map(|output| output.text), Ok("user: Hello\n".to_owned()));
//! ```

mod evaluation;
mod failure;
pub mod json;
mod language;
mod programs;
mod render_limits;
mod text;
mod values;

pub use evaluation::input::Input;
pub use evaluation::iteration_memo::IterationMemo;
pub use evaluation::render::{FollowedParts, RenderOutput};
pub use evaluation::sources::PrintedInputs;
pub use failure::{Failure, Refusal, RenderResult, is_unsupported};
pub use language::tree::Template;
pub use programs::buffers::{ProgramBuffers, ReplayInput};
pub use programs::program::{Printed, PrintedPlace, Program};
pub use programs::trace::{Trace, TraceInput};
pub use render_limits::{Allowance, Meter};
pub use text::is_space;
pub use values::printing::print::python_text;
