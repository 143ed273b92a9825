//! The sink of an output folder: its files, what a kill leaves of them, and whose they are.

mod arrangement;
#[cfg(unix)]
mod faults;
mod folder;
#[cfg(unix)]
mod ownership;
