//! `strftime_now`: Python's `datetime.strftime`, for the directives that are the same on every system.

use std::fmt::Write as _;

use chrono::{Datelike, NaiveDateTime, Timelike};

use crate::failure::{Failure, RenderResult};
use crate::render_limits::Meter;

/// Most bytes of output for a byte of a format: the two of `%F` give ten.
const LONGEST: usize = 5;

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Writes `now` as `format` says, in the C locale.
pub(crate) fn strftime(
    now: NaiveDateTime,
    format: &str,
    meter: &Meter<'_>,
) -> RenderResult<String> {
    meter.characters(format.len() * LONGEST)?;
    meter.hold(format.len() * LONGEST)?;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let directive = chars
            .next()
            .ok_or_else(|| Failure::unsupported("a `%` at the end of a time format"))?;
        let day = DAYS[now.weekday().num_days_from_monday() as usize % 7];
        let month = MONTHS[now.month0() as usize % 12];
        let hour = match now.hour() % 12 {
            0 => 12,
            hour => hour,
        };
        let year = now.year();
        if !(1000..=9999).contains(&year) && matches!(directive, 'Y' | 'G' | 'F' | 'y') {
            return Err(Failure::unsupported("a year that has not four digits"));
        }
        // Writing to a string cannot fail.
        let _ = match directive {
            'a' => write!(out, "{}", &day[..3]),
            'A' => write!(out, "{day}"),
            'b' => write!(out, "{}", &month[..3]),
            'B' => write!(out, "{month}"),
            'd' => write!(out, "{:02}", now.day()),
            'H' => write!(out, "{:02}", now.hour()),
            'I' => write!(out, "{hour:02}"),
            'j' => write!(out, "{:03}", now.ordinal()),
            'm' => write!(out, "{:02}", now.month()),
            'M' => write!(out, "{:02}", now.minute()),
            'p' => write!(out, "{}", if now.hour() < 12 { "AM" } else { "PM" }),
            'S' => write!(out, "{:02}", now.second()),
            'f' => write!(out, "{:06}", now.nanosecond() / 1000 % 1_000_000),
            'w' => write!(out, "{}", now.weekday().num_days_from_sunday()),
            'u' => write!(out, "{}", now.weekday().number_from_monday()),
            'y' => write!(out, "{:02}", year % 100),
            'Y' => write!(out, "{year}"),
            'F' => write!(out, "{year}-{:02}-{:02}", now.month(), now.day()),
            'T' => write!(out, "{:02}:{:02}:{:02}", now.hour(), now.minute(), now.second()),
            'z' | 'Z' => Ok(()),
            '%' => write!(out, "%"),
            other => {
                return Err(Failure::unsupported(format_args!(
                    "the directive `%{other}` of `strftime_now`"
                )));
            }
        };
    }
    meter.release(format.len() * LONGEST - out.len());
    Ok(out)
}
