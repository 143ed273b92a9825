//! A whole job on more cores than there are: work is recorded once, and waits take its place.
//!
//! [`recording`] notes how long each piece of work of a real job takes the processor. [`machine`] waits as long, on as many cores as
//! it is told. The threads, queues and locks between the pieces are those of real jobs. `pipeline/many_cores.rs` puts both together.

pub(crate) mod machine;
pub(crate) mod recording;
