//! Regular expressions of rules.

use regex::Regex;

use crate::schema::regexp::compile_within;

/// Compiled programs up to this size are small.
const SMALL: usize = 128 * 1024;
/// Larger ones are refused.
// A rule may build its pattern at run time from the object, so the limit is a
// quarter of that for patterns in schemas.
const LARGE: usize = 1024 * 1024;

/// Compiles `pattern`; also returns whether the program is large, which makes it slower to run.
pub(crate) fn compile(pattern: &str) -> Result<(Regex, bool), String> {
    compile_within(pattern, &[SMALL, LARGE]).map(|(regex, size)| (regex, size > 0))
}
