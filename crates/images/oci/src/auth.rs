//! How registries ask who is there, and what they are told.
//!
//! A registry that wants to know answers 401 with a challenge: `Basic`, to which name and password are
//! the answer, or `Bearer`, which names a token server (the realm) that has to be asked first. The
//! realm is chosen by the registry, which anybody who may name an image may choose: it is checked
//! before anything is sent there.

mod challenge;
mod realm;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use challenge::Demand;
pub(crate) use realm::{check, check_literal, origin};
pub(crate) use token::{Grant, Token};
