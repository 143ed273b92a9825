//! The supported methods of strings and dicts, and the names of Python's other attributes.

/// A method that templates can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// `str.split`
    Split,
    /// `str.rsplit`
    RightSplit,
    /// `str.splitlines`
    SplitLines,
    /// `str.strip`
    Strip,
    /// `str.lstrip`
    LeftStrip,
    /// `str.rstrip`
    RightStrip,
    /// `str.startswith`
    StartsWith,
    /// `str.endswith`
    EndsWith,
    /// `str.removeprefix`
    RemovePrefix,
    /// `str.removesuffix`
    RemoveSuffix,
    /// `str.upper`
    Upper,
    /// `str.lower`
    Lower,
    /// `str.title`
    Title,
    /// `str.capitalize`
    Capitalize,
    /// `str.replace`
    Replace,
    /// `str.find`
    Find,
    /// `str.count`
    Count,
    /// `str.join`
    Join,
    /// `str.format`
    Format,
    /// `str.rfind`
    RightFind,
    /// `str.index`
    Index,
    /// `str.zfill`
    ZeroFill,
    /// `str.ljust`
    LeftJustify,
    /// `str.rjust`
    RightJustify,
    /// `str.partition`
    Partition,
    /// `str.rpartition`
    RightPartition,
    /// `str.isdigit` and its like
    Is(CharacterClass),
    /// `dict.get`
    Get,
    /// `dict.keys`, `dict.values`, `dict.items`
    View(DictView),
}

/// The class that all characters of a text are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharacterClass {
    /// `str.isdigit`, `str.isdecimal`, `str.isnumeric`
    Digits,
    /// `str.isalpha`
    Letters,
    /// `str.isalnum`
    LettersAndDigits,
    /// `str.isspace`
    Space,
    /// `str.isupper`
    Upper,
    /// `str.islower`
    Lower,
}

/// The kind of a view of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DictView {
    /// `.keys()`
    Keys,
    /// `.values()`
    Values,
    /// `.items()`
    Items,
}

/// Methods of `str`.
pub(crate) const STRING_METHODS: [(&str, Method); 34] = [
    ("split", Method::Split),
    ("rsplit", Method::RightSplit),
    ("splitlines", Method::SplitLines),
    ("strip", Method::Strip),
    ("lstrip", Method::LeftStrip),
    ("rstrip", Method::RightStrip),
    ("startswith", Method::StartsWith),
    ("endswith", Method::EndsWith),
    ("removeprefix", Method::RemovePrefix),
    ("removesuffix", Method::RemoveSuffix),
    ("upper", Method::Upper),
    ("lower", Method::Lower),
    ("title", Method::Title),
    ("capitalize", Method::Capitalize),
    ("replace", Method::Replace),
    ("find", Method::Find),
    ("count", Method::Count),
    ("join", Method::Join),
    ("format", Method::Format),
    ("rfind", Method::RightFind),
    ("index", Method::Index),
    ("zfill", Method::ZeroFill),
    ("ljust", Method::LeftJustify),
    ("rjust", Method::RightJustify),
    ("partition", Method::Partition),
    ("rpartition", Method::RightPartition),
    ("isdigit", Method::Is(CharacterClass::Digits)),
    ("isdecimal", Method::Is(CharacterClass::Digits)),
    ("isnumeric", Method::Is(CharacterClass::Digits)),
    ("isalpha", Method::Is(CharacterClass::Letters)),
    ("isalnum", Method::Is(CharacterClass::LettersAndDigits)),
    ("isspace", Method::Is(CharacterClass::Space)),
    ("isupper", Method::Is(CharacterClass::Upper)),
    ("islower", Method::Is(CharacterClass::Lower)),
];

/// Methods of `dict`.
pub(crate) const DICT_METHODS: [(&str, Method); 4] = [
    ("get", Method::Get),
    ("keys", Method::View(DictView::Keys)),
    ("values", Method::View(DictView::Values)),
    ("items", Method::View(DictView::Items)),
];

/// Attributes of strings that are not supported, in any Python from 3.10 to 3.14.
pub(crate) const OTHER_STRING: [&str; 13] = [
    "casefold",
    "center",
    "encode",
    "expandtabs",
    "format_map",
    "isascii",
    "isidentifier",
    "isprintable",
    "istitle",
    "maketrans",
    "rindex",
    "swapcase",
    "translate",
];

/// Attributes of dicts that are not supported.
pub(crate) const OTHER_DICT: [&str; 2] = ["copy", "fromkeys"];
/// Methods of dicts that change them, which the sandbox hides.
pub(crate) const FORBIDDEN_DICT: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
/// Attributes of lists that are not supported. Tuples have those from the second on.
pub(crate) const OTHER_SEQUENCE: [&str; 3] = ["copy", "count", "index"];
/// Methods of lists that change them, which the sandbox hides.
pub(crate) const FORBIDDEN_LIST: [&str; 8] =
    ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
/// Attributes of numbers that are not supported.
pub(crate) const OTHER_NUMBER: [&str; 13] = [
    "as_integer_ratio",
    "bit_count",
    "bit_length",
    "conjugate",
    "denominator",
    "from_bytes",
    "from_number",
    "fromhex",
    "hex",
    "imag",
    "is_integer",
    "numerator",
    "real",
];
