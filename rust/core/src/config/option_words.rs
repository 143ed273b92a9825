//! [`option_words`]: options with a fixed set of words as values, each spelled here and nowhere else.

/// Makes an enum with one word for each value, used by options, manifests and reports.
macro_rules! option_words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// All values, each by its word.
            pub const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            /// The word.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                let found = Self::WORDS.iter().find(|(known, _)| *known == word);
                let unknown = || serde::de::Error::custom(format_args!("`{word}` is no {}", stringify!($name)));
                found.map(|&(_, value)| value).ok_or_else(unknown)
            }
        }
    };
}

pub(crate) use option_words;
