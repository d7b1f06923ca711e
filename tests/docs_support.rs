//! Runs the pages of the documentation as a reader would type them.
//!
//! Blocks of `sh` and `console` are run in the order of the page, by one bash. HTML comments in the page control
//! how; CONTRIBUTING.md lists them.

pub(crate) mod compare;
pub(crate) mod page;
pub(crate) mod reader;
pub(crate) mod shell;

#[cfg(test)]
mod tests;
