//! Names of classes in the column of labels, where their numbers are known only once all documents are read.

/// The mark of a name among the numbers of a column: the number of its characters, which follow.
const NAME: u32 = 1 << 31;

/// Names of classes as the numbers of a column.
pub(crate) fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<u32> {
    let mut numbers = Vec::new();
    for name in names {
        let mark = numbers.len();
        numbers.push(NAME);
        numbers.extend(name.chars().map(u32::from));
        let characters = u32::try_from(numbers.len() - mark - 1);
        numbers[mark] |= characters.expect("a block has fewer characters than 2^31");
    }
    numbers
}

/// True if the numbers of a column are names of classes.
pub(crate) fn are_names(numbers: &[u32]) -> bool {
    numbers.first().is_some_and(|number| number & NAME != 0)
}

/// The names of classes in a column, each as its characters.
pub(crate) fn names(mut numbers: &[u32]) -> impl Iterator<Item = &[u32]> {
    std::iter::from_fn(move || {
        let (mark, rest) = numbers.split_first()?;
        let (name, rest) = rest.split_at((mark & !NAME) as usize);
        numbers = rest;
        Some(name)
    })
}

/// A name as text.
pub(crate) fn text(name: &[u32]) -> String {
    name.iter().filter_map(|&character| char::from_u32(character)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_read_as_they_were_written(written: Vec<String>) {
            let numbers = of_names(written.iter().map(String::as_str));
            prop_assert_eq!(are_names(&numbers), !written.is_empty());
            prop_assert_eq!(names(&numbers).map(text).collect::<Vec<_>>(), written);
        }
    }
}
