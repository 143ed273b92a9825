//! The supported filters.

/// Jinja's filters that are not supported.
const OTHER_FILTERS: [&str; 16] = [
    "attr",
    "batch",
    "center",
    "filesizeformat",
    "forceescape",
    "groupby",
    "pprint",
    "random",
    "slice",
    "striptags",
    "truncate",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// `tojson`
    ToJson,
    /// `trim`
    Trim,
    /// `length`, `count`
    Length,
    /// `string`
    String,
    /// `safe`
    Safe,
    /// `items`
    Items,
    /// `default`, `d`
    Default,
    /// `join`
    Join,
    /// `list`
    List,
    /// `upper`
    Upper,
    /// `lower`
    Lower,
    /// `capitalize`
    Capitalize,
    /// `title`
    Title,
    /// `replace`
    Replace,
    /// `dictsort`
    DictSort,
    /// `map`
    Map,
    /// `select`
    Select,
    /// `reject`
    Reject,
    /// `selectattr`
    SelectAttribute,
    /// `rejectattr`
    RejectAttribute,
    /// `first`
    First,
    /// `last`
    Last,
    /// `reverse`
    Reverse,
    /// `sort`
    Sort,
    /// `unique`
    Unique,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `sum`
    Sum,
    /// `abs`
    Abs,
    /// `float`
    Float,
    /// `round`
    Round,
    /// `format`
    Format,
    /// `escape`, `e`
    Escape,
    /// `int`
    Int,
    /// `indent`
    Indent,
}

impl Filter {
    /// True if Jinja has a filter of this name that is not supported.
    pub(crate) fn exists(name: &str) -> bool {
        OTHER_FILTERS.contains(&name)
    }

    /// The filter of this name, if it is supported.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "tojson" => Self::ToJson,
            "trim" => Self::Trim,
            "length" | "count" => Self::Length,
            "string" => Self::String,
            "safe" => Self::Safe,
            "items" => Self::Items,
            "default" | "d" => Self::Default,
            "join" => Self::Join,
            "list" => Self::List,
            "upper" => Self::Upper,
            "lower" => Self::Lower,
            "capitalize" => Self::Capitalize,
            "title" => Self::Title,
            "replace" => Self::Replace,
            "dictsort" => Self::DictSort,
            "map" => Self::Map,
            "select" => Self::Select,
            "reject" => Self::Reject,
            "selectattr" => Self::SelectAttribute,
            "rejectattr" => Self::RejectAttribute,
            "first" => Self::First,
            "last" => Self::Last,
            "reverse" => Self::Reverse,
            "sort" => Self::Sort,
            "unique" => Self::Unique,
            "min" => Self::Min,
            "max" => Self::Max,
            "sum" => Self::Sum,
            "abs" => Self::Abs,
            "float" => Self::Float,
            "round" => Self::Round,
            "format" => Self::Format,
            "escape" | "e" => Self::Escape,
            "int" => Self::Int,
            "indent" => Self::Indent,
            _ => return None,
        })
    }

    /// The supported arguments: the number by position, and the names.
    pub(super) fn signature(self) -> (usize, &'static [&'static str]) {
        match self {
            Self::ToJson => (5, &["ensure_ascii", "indent", "separators", "sort_keys"]),
            Self::Trim => (1, &["chars"]),
            Self::Default => (2, &["default_value", "boolean"]),
            Self::Join => (2, &["d", "attribute"]),
            Self::Replace => (3, &["old", "new", "count"]),
            Self::Indent => (3, &["width", "first", "blank"]),
            Self::Map => (1, &["attribute", "default"]),
            Self::Sort => (3, &["reverse", "case_sensitive", "attribute"]),
            Self::DictSort => (3, &["case_sensitive", "by", "reverse"]),
            Self::Unique | Self::Min | Self::Max => (2, &["case_sensitive", "attribute"]),
            Self::Sum => (2, &["attribute", "start"]),
            Self::Int => (2, &["default", "base"]),
            Self::Float => (1, &["default"]),
            Self::Round => (2, &["precision", "method"]),
            Self::Select | Self::Reject => (2, &[]),
            Self::SelectAttribute | Self::RejectAttribute => (3, &[]),
            Self::Format => (usize::MAX, &[]),
            _ => (0, &[]),
        }
    }
}
