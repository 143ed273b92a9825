//! Messages that name options with their values.
//!
//! An error keeps an option and its value as data, because each interface spells them in its own way:
//! `exists="overwrite"` in Python, `--exists overwrite` on the command line, `exists = "overwrite"` in a recipe and here.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The text of a message, and the options that it names. Options side by side are given together: fields of one value.
///
/// ```
/// use fastpack_core::util::wording::{Message, MessagePart, set};
///
/// let advice = Message::from_iter([
///     MessagePart::from("is not empty; pass "),
///     MessagePart::from(set("exists", "overwrite")),
/// ]);
/// assert_eq!(advice.to_string(), r#"is not empty; pass exists = "overwrite""#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message {
    parts: Vec<MessagePart>,
}

/// A part of a message: text, or an option with a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessagePart {
    /// Text that every interface shows alike.
    Text(Cow<'static, str>),
    /// An option with a value, which each interface spells.
    Setting(Setting),
}

/// An option with a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The name of the option.
    pub option: Cow<'static, str>,
    /// The value.
    pub value: SettingValue,
}

/// The value of an option in a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// On or off.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// A share.
    Share(f64),
    /// A word, or a short text.
    Word(Cow<'static, str>),
}

/// A [`Message`] of its parts in order: texts and settings.
macro_rules! message {
    ($($part:expr),+ $(,)?) => {
        $crate::util::wording::Message::from_iter([$($crate::util::wording::MessagePart::from($part)),+])
    };
}
pub(crate) use message;

/// An option with a value, for a message.
pub fn set(option: &'static str, value: impl Into<SettingValue>) -> Setting {
    Setting { option: Cow::Borrowed(option), value: value.into() }
}

impl Message {
    /// The parts, in order.
    pub fn parts(&self) -> &[MessagePart] {
        &self.parts
    }

    /// This message with another one after it.
    #[must_use]
    pub fn with(mut self, rest: Self) -> Self {
        self.parts.extend(rest.parts);
        self
    }
}

impl FromIterator<MessagePart> for Message {
    fn from_iter<T: IntoIterator<Item = MessagePart>>(parts: T) -> Self {
        Self { parts: parts.into_iter().collect() }
    }
}

impl<T: Into<MessagePart>> From<T> for Message {
    fn from(part: T) -> Self {
        Self { parts: vec![part.into()] }
    }
}

impl From<&'static str> for MessagePart {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for MessagePart {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<Setting> for MessagePart {
    fn from(setting: Setting) -> Self {
        Self::Setting(setting)
    }
}

impl From<bool> for SettingValue {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl From<u32> for SettingValue {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<usize> for SettingValue {
    fn from(value: usize) -> Self {
        Self::Number(value as u64)
    }
}

impl From<u64> for SettingValue {
    fn from(value: u64) -> Self {
        Self::Number(value)
    }
}

impl From<f64> for SettingValue {
    fn from(value: f64) -> Self {
        Self::Share(value)
    }
}

impl From<&'static str> for SettingValue {
    fn from(word: &'static str) -> Self {
        Self::Word(Cow::Borrowed(word))
    }
}

impl From<String> for SettingValue {
    fn from(word: String) -> Self {
        Self::Word(Cow::Owned(word))
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut after_setting = false;
        for part in &self.parts {
            let is_setting = matches!(part, MessagePart::Setting(_));
            if is_setting && after_setting {
                f.write_str(", ")?;
            }
            part.fmt(f)?;
            after_setting = is_setting;
        }
        Ok(())
    }
}

impl fmt::Display for MessagePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Setting(setting) => setting.fmt(f),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = &self.option;
        match &self.value {
            SettingValue::Flag(value) => write!(f, "{option} = {value}"),
            SettingValue::Number(value) => write!(f, "{option} = {value}"),
            SettingValue::Share(value) => write!(f, "{option} = {value}"),
            SettingValue::Word(word) => write!(f, "{option} = \"{word}\""),
        }
    }
}
