//! From documents to rows, and into a sink as soon as the strategy allows.
//!
//! | module | |
//! |---|---|
//! | [`sink_packer`] | takes the documents of a job, and chooses between the next two |
//! | [`early_rows`] | packs and writes rows while documents arrive |
//! | [`planned_packing`] | collects all lengths, plans, then writes |
//! | [`row_packer`] | fills rows in input order, for `early_rows` and for streams |
//! | [`document_cutter`] | makes the pieces of a document that is longer than a row |
//! | [`leftover_documents`] | documents that several rows of a plan share |
//! | [`validation_draw`], [`split_rows`] | selects the documents of the validation split, and makes the rows of each split |
//! | [`source_share_draw`] | selects the documents of sources by `weights` and `fraction` |
//! | [`run_counts`] | the counts of such a job |
//! | [`weight_column`] | refuses weights where rows have no column of them |

pub(crate) mod document_cutter;
pub(crate) mod early_rows;
pub(in crate::pipeline) mod leftover_documents;
pub(crate) mod planned_packing;
pub(crate) mod row_packer;
pub(in crate::pipeline) mod run_counts;
pub(crate) mod sink_packer;
pub(in crate::pipeline) mod source_share_draw;
pub(crate) mod split_rows;
pub(crate) mod validation_draw;
mod weight_column;
