//! The native module `fastpack._fastpack`: the list of its names.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

mod arrays;
mod arrow;
mod byte_sizes;
mod callers;
mod calls;
mod convert;
mod error;
mod interruptible;
mod job;
mod options;
mod report;
mod state_dict;

use pyo3::prelude::*;

#[pymodule]
mod _fastpack {
    use fastpack_core::assemble::schema::FASTPACK as REPORT_KEY;
    use fastpack_core::assemble::{COMPACT as COMPACT_KEY, COMPUTED_COLUMNS};
    use fastpack_core::config::LABEL_SPANS;
    use fastpack_core::config::RowColumn;
    use fastpack_core::sink::MANIFEST_VERSION;
    use fastpack_core::stream::{PLACES_KEY, STATE_KEY};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::callers::records::PyRecords;
    #[pymodule_export]
    use crate::calls::encoders::PyEncoders;
    #[pymodule_export]
    use crate::calls::groups::{list_groups, pack_group, status};
    #[pymodule_export]
    use crate::calls::manifest_files::{
        content_hash, first_outside, hash_of, is_sealed, tokens_hash,
    };
    #[pymodule_export]
    use crate::calls::pack::{pack_dir, pack_files, pack_records, repack, write_records};
    #[pymodule_export]
    use crate::calls::packed_folder::{PyHeldFile, PyRemoteFolder, block_cache_size};
    #[pymodule_export]
    use crate::calls::pictures::{PyRemotePictures, held_picture};
    #[pymodule_export]
    use crate::calls::plan::{PyPlan, plan};
    #[pymodule_export]
    use crate::calls::pretrained::PyPretrained;
    #[pymodule_export]
    use crate::calls::reindex::reindex;
    #[pymodule_export]
    use crate::calls::render::{
        PyConversations, render_template, replay_template, template_engine_reason,
    };
    #[pymodule_export]
    use crate::calls::rows::{
        PyCompactRows, PyRowDocuments, bytes_of_rows, check_rows, document_hashes, expand_row,
        expand_rows, first_restart, inspect_row, line_fault, padding_values, row_boundaries,
        row_documents, shown_columns,
    };
    #[pymodule_export]
    use crate::calls::scan::scan;
    #[pymodule_export]
    use crate::calls::step::plan_step;
    #[pymodule_export]
    use crate::calls::stream::{
        PyStreamOptions, PyStreamTables, check_state, count_stream, first_state, is_beginning,
        merge_states, state_after_row,
    };
    #[pymodule_export]
    use crate::error::{py_one_line, py_printable, py_without_secrets};
    #[pymodule_export]
    use crate::options::PyOptions;
    #[pymodule_export]
    use crate::options::inputs::{PyInputs, PySource};
    #[pymodule_export]
    use crate::options::objective::PyObjectiveOptions;
    #[pymodule_export]
    use crate::options::option_words::{option_words, required_fields, strategy_rules};
    #[pymodule_export]
    use crate::options::output::{PyOutput, PyValidation};
    #[pymodule_export]
    use crate::options::packing::PyPackOptions;
    #[pymodule_export]
    use crate::options::storage::PyStorageOptions;
    #[pymodule_export]
    use crate::options::values::check_value;
    #[pymodule_export]
    use crate::state_dict::{open_state, seal_state};

    /// Adds constants of the core, the version and the build profile.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("COMPACT_KEY", COMPACT_KEY)?;
        module.add("LABEL_SPANS", LABEL_SPANS.to_vec())?;
        module.add("COMPUTED_COLUMNS", COMPUTED_COLUMNS.map(RowColumn::name).to_vec())?;
        module.add("MANIFEST_VERSION", MANIFEST_VERSION)?;
        module.add("REPORT_KEY", REPORT_KEY)?;
        module.add("PLACES_KEY", PLACES_KEY)?;
        module.add("STATE_KEY", STATE_KEY)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("build_profile", if cfg!(debug_assertions) { "debug" } else { "release" })
    }
}
