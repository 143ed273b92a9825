//! Tests of fastpack-tokenize through its public face.

#![expect(clippy::single_range_in_vec_init, reason = "one span is a list of spans too")]

mod hostile;
mod kinds;
mod pretrained;
mod small;
mod spans;
mod threads;
mod words;
