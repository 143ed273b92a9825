//! One binary for all tests of the core, so that they build once.

mod assemble_rows;
mod document_literals;
mod fast_reader;
mod pack_laws;
mod pack_lengths;
mod pack_open;
mod packing;
mod record;
mod sink_arrangement;
#[cfg(unix)]
mod sink_faults;
mod sink_folder;
#[cfg(unix)]
mod sink_ownership;
mod source;
mod store_log;
mod template;
mod template_limits;
mod verify;
