//! [`without_secrets`]: text without the users, passwords, queries and fragments of the URLs in it.
//!
//! A URL may be mistyped, stand in the wrong option, or be quoted by a library. So this looks for possible URLs
//! anywhere in a text, and in doubt takes more away than it must.

use std::borrow::Cow;

/// Schemes whose URLs have a query.
const WEB: [&str; 2] = ["http", "https"];

/// Other schemes whose URLs have a user before an `@` of the first part.
const WITH_USERS: [&str; 15] = [
    "ftp", "ftps", "sftp", "ssh", "smb", "webdav", "webdavs", "s3", "s3a", "s3n", "gs", "gcs",
    "az", "azure", "hf",
];

/// Schemes in whose URLs `name:name@name` is no user with a password.
const WITHOUT_PASSWORDS: [&str; 1] = ["github"];

/// Words in the names of values of a query that are secrets.
const SECRET: [&str; 8] = ["sig", "token", "key", "secret", "passw", "credential", "auth", "pwd"];

/// The most passes over a text: one, and one that finds nothing, for all that anybody writes.
const MOST_TIMES: usize = 32;

/// Characters that end a URL in a sentence.
const CLOSING: &str = "\"'<>()`[]{},.;:!…";

/// The text without the parts of its URLs that may be secret.
///
/// A text that went through this before stays unchanged.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let mut shown = looked_through(text);
    // The rest of a text full of colons and slashes may look like a URL again.
    for _ in 0..MOST_TIMES {
        let Cow::Owned(again) = looked_through(&shown) else { break };
        shown = Cow::Owned(again);
    }
    shown
}

/// The text without the secrets that one pass finds.
fn looked_through(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(colon) = text[from..].find(':').map(|at| from + at) {
        from = colon + 1;
        let Some(scheme) = scheme_before(&text[done..colon]) else { continue };
        let scheme = scheme.to_ascii_lowercase();
        let rest = &text[colon + 1..];
        let slashes = rest.len() - rest.trim_start_matches(['/', '\\']).len();
        if slashes == 0 && !WEB.iter().any(|web| scheme.ends_with(web)) {
            continue;
        }
        let start = colon + 1 + slashes;
        let url = Url::at(&scheme, &text[start..]);
        let kept = url.kept();
        from = start + url.length;
        if kept != text[start..from] {
            shown.push_str(&text[done..start]);
            shown.push_str(&kept);
            done = from;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[done..]);
    Cow::Owned(shown)
}

/// The scheme at the end of a text; a single letter is a drive.
fn scheme_before(text: &str) -> Option<&str> {
    let start = text
        .rfind(|it: char| !(it.is_ascii_alphanumeric() || "+-.".contains(it)))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let scheme = text[start..].trim_start_matches(|it: char| !it.is_ascii_alphabetic());
    (scheme.len() > 1).then_some(scheme)
}

/// A possible URL, from the part behind its slashes on.
struct Url<'a> {
    scheme: &'a str,
    text: &'a str,
    /// The bytes of the text that are the URL, with a password that has spaces.
    length: usize,
}

impl<'a> Url<'a> {
    fn at(scheme: &'a str, text: &'a str) -> Self {
        let length = text.find(char::is_whitespace).unwrap_or(text.len());
        let mut url = Self { scheme, text, length };
        if url.is_web() && url.is_cut_off() {
            // A password with a space in it.
            let line = text.lines().next().unwrap_or_default();
            if let Some(at) = line.find('@') {
                let rest = &text[at..];
                url.length = at + rest.find(char::is_whitespace).unwrap_or(rest.len());
            }
        }
        url
    }

    fn is_web(&self) -> bool {
        WEB.contains(&self.scheme)
    }

    /// The part up to the path, which is the host, with a user before it.
    fn authority(&self) -> &'a str {
        let token = &self.text[..self.length];
        token
            .split(['/', '\\', '?', '#', '"', '\'', '`', '<', '>', '(', ')'])
            .next()
            .unwrap_or_default()
    }

    /// True if the part behind a colon is no port but a password, with a slash or another character that ends a host.
    fn has_no_port(&self) -> bool {
        let authority = self.authority();
        let address = authority.starts_with('[').then(|| authority.find(']')).flatten();
        let host = address.map_or(authority, |end| &authority[end..]);
        let port = host.split_once(':').map_or("", |(_, port)| port);
        !port.trim_end_matches(|it| CLOSING.contains(it)).chars().all(|it| it.is_ascii_digit())
    }

    /// True if a password begins that does not end within the URL.
    fn is_cut_off(&self) -> bool {
        self.has_no_port() && !self.text[..self.length].contains('@')
    }

    /// The bytes up to which a user and a password go.
    fn user(&self) -> usize {
        let token = &self.text[..self.length];
        let authority = self.authority();
        let behind = |at: Option<usize>| at.map_or(0, |at| at + 1);
        if let Some((user, _)) = authority.split_once('@') {
            let has_password = user.contains(':') && !WITHOUT_PASSWORDS.contains(&self.scheme);
            if has_password {
                return behind(token.rfind('@'));
            }
            let is_user = self.is_web() || WITH_USERS.contains(&self.scheme);
            return if is_user { behind(authority.rfind('@')) } else { 0 };
        }
        if self.has_no_port() && !WITHOUT_PASSWORDS.contains(&self.scheme) {
            return behind(token.rfind('@'));
        }
        0
    }

    /// The URL as it may be shown.
    fn kept(&self) -> String {
        let user = self.user();
        let token = &self.text[user..self.length];
        let closing = token.len() - token.trim_end_matches(|it| CLOSING.contains(it)).len();
        let closing = &token[token.len() - closing..];
        if self.is_web() && self.is_cut_off() {
            return format!("…{}", closing.trim_start_matches('…'));
        }
        let query = if self.is_web() { token.find(['?', '#']) } else { token.find('?') };
        match query {
            Some(at) if self.is_web() || is_secret(&token[at..]) => {
                format!("{}{closing}", token[..at].trim_end_matches(|it| CLOSING.contains(it)))
            }
            _ => token.to_owned(),
        }
    }
}

/// True if a query has a value whose name is that of a secret.
fn is_secret(query: &str) -> bool {
    query.trim_start_matches('?').split('&').any(|pair| {
        let name = pair.split_once('=').map_or("", |(name, _)| name).to_ascii_lowercase();
        SECRET.iter().any(|word| name.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn users_passwords_and_queries_are_taken_away() {
        let shown = [
            (
                "https://u:hunter22@h:8/a/b.jsonl?X-Amz-Signature=hunter22#x",
                "https://h:8/a/b.jsonl",
            ),
            (" https://u:hunter22@h/a", " https://h/a"),
            ("`HTTPS://hunter22@h/a`", "`HTTPS://h/a`"),
            ("https:/u:hunter22@h/a", "https:/h/a"),
            ("https:u:hunter22@h/a", "https:h/a"),
            ("https:\\\\u:hunter22@h/a", "https:\\\\h/a"),
            ("https://u:hun/ter22@h/a", "https://h/a"),
            ("https://u:hun?ter22@h/a", "https://h/a"),
            ("https://u:hun#ter22@h/a", "https://h/a"),
            ("https://u:hun@ter22@h/a", "https://h/a"),
            ("https://u:hun@ter/22@h/a", "https://h/a"),
            ("https://u:hun'ter22@h/a", "https://h/a"),
            ("https://u:hun ter22@h/a", "https://h/a"),
            ("[\"https://u:hun`ter22@h/a\"]", "[\"https://h/a\"]"),
            ("`https://u:hunter2…`", "`https://…`"),
            ("`https://u:hunt...", "`https://…..."),
            ("hf://u:hunter22@huggingface.co/a", "hf://huggingface.co/a"),
            ("hf://datasets/o/n?token=hunter22", "hf://datasets/o/n"),
            ("s3://KEY:hun/ter22@bucket/a", "s3://bucket/a"),
            ("s3://bucket/a?X-Amz-Signature=hunter22", "s3://bucket/a"),
            ("sftp://u:hunter22@h/a", "sftp://h/a"),
            (
                "at https://u:hunter22@h/a, and (http://h/b?hunter22)",
                "at https://h/a, and (http://h/b)",
            ),
            ("https://h/it's?hunter22", "https://h/it's"),
            ("tcp://u:hunter22@h:1", "tcp://h:1"),
        ];
        for (text, wanted) in shown {
            assert_eq!(without_secrets(text), wanted);
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in [
            "",
            "a: b",
            "plain/path@x",
            "C:/x@y",
            "C://u:p@y",
            "https://h:8080/a@b.jsonl:12: is no JSON",
            "https://[::1]:8080/a",
            "https://h/pkg@1.0/x",
            "s3://bucket/a?b#c",
            "s3://bucket/[a-c]??.jsonl",
            "abfss://files@account.dfs.core.windows.net/a",
            "hf://datasets/o/n@main/a?config=x&split=train",
            "github://org:repo@main/a.jsonl",
            "memory://a/b@c",
            "tcp://HOST:PORT",
            "unix:/tmp/rows",
            "file.py:12: me@example.org",
        ] {
            assert!(matches!(without_secrets(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_password_is_taken_away(
            before in "[ `'(a]{0,3}",
            slashes in 1_usize..4,
            password in "[a-z][!-~]{0,12}",
            host in "[a-z]{1,9}",
        ) {
            let text = format!("{before}https:{}user:SECRET{password}@{host}/key", "/".repeat(slashes));
            let shown = without_secrets(&text);
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
            prop_assert!(shown.ends_with(&format!("{host}/key")), "{}", shown);
        }

        #[test]
        fn a_text_that_went_through_it_stays_unchanged(text in "[a-z:/@?#.'` =&é…]{0,40}", any in any::<String>()) {
            for text in [text, any] {
                let shown = without_secrets(&text).into_owned();
                prop_assert_eq!(without_secrets(&shown), shown.as_str());
            }
        }
    }
}
