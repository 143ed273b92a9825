//! Tests of fastpack-picture through its public face.

mod faults;
mod files;
mod formats;
mod hostile;
mod reading;
mod turns;
