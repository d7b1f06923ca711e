//! Pages of documentation, read as somebody does who types what they show.
//!
//! Blocks of `sh` and `console` are run in the order of the page, by one bash. How is said in comments of
//! the page, which readers do not see; CONTRIBUTING.md lists them.

pub(crate) mod compare;
pub(crate) mod page;
pub(crate) mod reader;
pub(crate) mod shell;

#[cfg(test)]
mod tests;
