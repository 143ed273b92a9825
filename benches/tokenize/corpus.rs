//! The input of the benches of the crate, and the clock that they look at.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The texts of a corpus; a conversation becomes one text with a header before each message.
pub(crate) fn documents(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the corpus is readable");
    let document = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        if let Some(text) = value["text"].as_str() {
            return text.to_owned();
        }
        let messages = value["messages"].as_array().expect("a conversation has messages");
        let mut text = String::new();
        for message in messages {
            for part in ["<|im_start|>", message["role"].as_str().unwrap_or(""), "\n"] {
                text.push_str(part);
            }
            text.push_str(message["content"].as_str().unwrap_or(""));
            text.push_str("<|im_end|>\n");
        }
        text
    };
    text.lines().map(document).collect()
}

/// The time that this thread has had on a core: other work on the machine does not count.
pub(crate) fn busy() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the system counts the time of threads"))
}
