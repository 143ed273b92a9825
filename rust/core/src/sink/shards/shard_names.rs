//! [`ShardSeries`]: the shards of one split or of one input, and their names.

use crate::config::{Format, Split};
use crate::sink::file_names::{is_shard_of, shard_name};
use crate::sink::manifest::WrittenShard;

/// The shards of one split or of one input.
pub(crate) enum ShardSeries {
    /// A split.
    Split(Split),
    /// An input with shards of its own, after `behind` shards of other inputs.
    Input { stem: String, behind: usize },
}

impl ShardSeries {
    /// The name of a shard.
    pub(crate) fn name(&self, number: usize, format: Format) -> String {
        let extension = format.extension();
        match self {
            Self::Split(split) => shard_name(*split, number, extension),
            Self::Input { stem, .. } if number == 0 => format!("{stem}.{extension}"),
            Self::Input { stem, .. } => format!("{stem}-{number:05}.{extension}"),
        }
    }

    /// The number of `files` that are shards of this series.
    pub(crate) fn whole(&self, files: &[WrittenShard], format: Format) -> usize {
        match self {
            Self::Split(split) => {
                files.iter().filter(|file| is_shard_of(*split, &file.name)).count()
            }
            Self::Input { behind, .. } => {
                let numbered = files[*behind..].iter().zip(0..);
                numbered
                    .take_while(|(file, number)| file.name == self.name(*number, format))
                    .count()
            }
        }
    }
}

/// True if `name` is the name of a shard of the input with this stem.
pub(crate) fn is_of_input(stem: &str, name: &str, format: Format) -> bool {
    let inside = name.strip_prefix(stem).and_then(|rest| {
        rest.strip_suffix(format.extension()).and_then(|rest| rest.strip_suffix('.'))
    });
    inside.is_some_and(|number| {
        let digits = number.strip_prefix('-');
        number.is_empty()
            || digits.is_some_and(|it| it.len() >= 5 && it.bytes().all(|it| it.is_ascii_digit()))
    })
}
