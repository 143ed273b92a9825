//! [`FileNumbers`]: files by their numbers, in the places that a state carries: the folder may move.

use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::report::ledger::Ledger;
use crate::source::FoundFiles;
use crate::source::extents::extent::number_line;
use crate::util::control::Control;

/// The files of a run by their numbers, which stand in place of their paths. Their text is in the order of the paths, so that the first
/// places are the same before and after.
pub(crate) struct FileNumbers<'a> {
    found: &'a FoundFiles,
    /// The numbers of the files, sorted by path.
    sorted: OnceCell<Vec<usize>>,
    /// The path that was asked for last, and its number: the places of a row are mostly of one file.
    last: RefCell<Option<(Arc<Path>, Arc<Path>)>>,
}

impl<'a> FileNumbers<'a> {
    pub(crate) fn new(found: &'a FoundFiles) -> Self {
        Self { found, sorted: OnceCell::new(), last: RefCell::new(None) }
    }

    /// Replaces the paths in a ledger by the numbers of the files.
    pub(crate) fn number(&self, ledger: &mut Ledger) {
        ledger.origins_mut(|origin| {
            origin.path = self.number_of(&origin.path);
            true
        });
    }

    /// Replaces the numbers in a ledger by the paths of the files, and offsets by lines unless they are `counted`. Places of
    /// files that are not there any more are left out.
    pub(crate) fn restore(
        &self,
        ledger: &mut Ledger,
        counted: bool,
        control: &Control,
    ) -> Result<()> {
        let mut done = Ok(());
        ledger.origins_mut(|origin| {
            let (_, number) = origin.path.to_str().and_then(|text| text.split_once('.')).unzip();
            let number = number.and_then(|number| number.parse::<usize>().ok());
            let Some(file) = number.and_then(|number| self.found.files.get(number)) else {
                return false;
            };
            origin.path = Arc::clone(&file.path);
            if done.is_ok() && !counted {
                done = number_line(self.found, origin, control);
            }
            true
        });
        done
    }

    /// The number of the first file of a path, as text.
    fn number_of(&self, path: &Arc<Path>) -> Arc<Path> {
        let mut last = self.last.borrow_mut();
        if let Some((known, number)) = &*last
            && (Arc::ptr_eq(known, path) || known == path)
        {
            return Arc::clone(number);
        }
        let files = &self.found.files;
        let sorted = self.sorted.get_or_init(|| {
            let mut sorted: Vec<usize> = (0..files.len()).collect();
            sorted.sort_by(|&a, &b| files[a].path.cmp(&files[b].path));
            sorted
        });
        let at = sorted.partition_point(|&file| files[file].path < *path);
        let number = sorted.get(at).copied().filter(|&file| files[file].path == *path);
        let text = number.map_or_else(|| "-".to_owned(), |number| format!("{at:010}.{number}"));
        let number: Arc<Path> = Arc::from(Path::new(&text));
        *last = Some((Arc::clone(path), Arc::clone(&number)));
        number
    }
}
