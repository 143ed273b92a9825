//! [`read_byte_size`]: sizes in bytes, as numbers or texts such as `512MB`.

use pyo3::prelude::*;
use pyo3::types::PyBool;

/// Reads a number of bytes, or a text such as `512MB` or `2GiB`.
pub(crate) fn read_byte_size(value: Borrowed<'_, '_, PyAny>) -> Option<u64> {
    match value.extract::<&str>() {
        Ok(text) => bytes_of(text),
        Err(_) => value.extract::<u64>().ok().filter(|_| !value.is_instance_of::<PyBool>()),
    }
}

fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit: u64 = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KIB" => 1 << 10,
        "MIB" => 1 << 20,
        "GIB" => 1 << 30,
        "TIB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
