//! [`contain`]: calls a library that may panic on contradictory data, and turns the panic into an error.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// The number of characters of a panic's message that an error shows.
const SHOWN: usize = 200;

thread_local! {
    /// True if a panic of this thread is expected and becomes an error.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `call`, or the message of its panic on one line. Nothing is printed.
///
/// Use it only for decoders and builders of other crates, on data that cannot be checked field by field
/// before. After a panic, do not use the object that `call` was working on.
///
/// # Errors
///
/// The message of the panic.
pub fn contain<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // The panic hook belongs to the whole process. It stays silent only for panics of a thread inside
    // `contain`.
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                usual(panic);
            }
        }));
    });
    let before = CONTAINED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(before);
    result.map_err(|panic| message(&*panic))
}

/// The start of a panic's message.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let text = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    text.take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::contain;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(contain(|| 3), Ok(3));
        assert_eq!(contain(|| panic!("of\n{}", 3)), Err::<(), _>("of 3".to_owned()));
    }

    #[test]
    fn calls_inside_calls_are_contained_each() {
        let outer = contain(|| {
            let inner = contain(|| panic!("inside"));
            assert_eq!(inner, Err::<(), _>("inside".to_owned()));
            panic!("outside");
        });
        assert_eq!(outer, Err::<(), _>("outside".to_owned()));
    }
}
