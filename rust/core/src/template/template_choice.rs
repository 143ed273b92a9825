//! Selects one of a tokenizer's chat templates by the rule of `get_chat_template`.

use crate::error::{Error, Result};

/// Chooses among named templates (name, source) as `transformers` does, and returns the index of the chosen
/// one.
///
/// `wanted` is a name that the user gave. Without one, `tool_use` serves records that have tools, if there is such a
/// template, and `default` all others.
pub fn select_template(
    templates: &[(&str, &str)],
    wanted: Option<&str>,
    has_tools: bool,
) -> Result<usize> {
    let find = |name: &str| templates.iter().position(|(known, _)| *known == name);
    let found = match wanted {
        Some(name) => find(name),
        None => has_tools.then(|| find("tool_use")).flatten().or_else(|| find("default")),
    };
    found.ok_or_else(|| {
        let mut names: Vec<&str> = templates.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        Error::option(
            "chat_template",
            match wanted {
                _ if templates.is_empty() => {
                    "the tokenizer has no chat template; give one as a Jinja source or a file"
                        .to_owned()
                }
                Some(name) => format!(
                    "there is no template `{name}`; the tokenizer has `{}`",
                    names.join("`, `")
                ),
                None => format!("no template is the default; name one of `{}`", names.join("`, `")),
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::select_template;

    const TEMPLATES: [(&str, &str); 3] = [("default", "d"), ("tool_use", "t"), ("rag", "r")];

    #[test]
    fn records_with_tools_take_the_template_for_tools() {
        assert!(matches!(select_template(&TEMPLATES, None, true), Ok(1)));
        assert!(matches!(select_template(&TEMPLATES, None, false), Ok(0)));
        assert!(matches!(select_template(&TEMPLATES[..1], None, true), Ok(0)));
    }

    #[test]
    fn a_wanted_name_wins() {
        assert!(matches!(select_template(&TEMPLATES, Some("rag"), true), Ok(2)));
    }

    #[test]
    fn a_missing_default_names_what_there_is() {
        let message =
            select_template(&TEMPLATES[1..], None, false).map_err(|error| error.to_string());
        assert_eq!(
            message,
            Err("invalid option `chat_template`: no template is the default; name one of `rag`, `tool_use`".to_owned())
        );
    }
}
