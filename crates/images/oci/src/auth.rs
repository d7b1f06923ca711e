//! Authentication with registries.
//!
//! A registry that requires authentication answers 401 with a challenge: `Basic`, answered with
//! username and password, or `Bearer`, which names a token server (the realm) to request a token from
//! first. The registry chooses the realm, and any user who may name an image may choose the registry,
//! so the realm is checked before anything is sent there.

mod challenge;
mod realm;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use challenge::Demand;
pub(crate) use realm::{check, check_literal, origin};
pub(crate) use token::{Grant, Token};
