//! One binary for all tests of the core, so that they build once.

mod assemble_rows;
mod document_literals;
mod fast_reader;
mod pack;
mod packing;
mod record;
mod sink;
mod source;
mod store_log;
mod template;
mod template_contexts;
mod template_limits;
mod verify;
