//! What people do to a cluster: reading and changing the objects that say what is wanted.
//!
//! The command line and the console go through here, so that both refuse the same, write the same and
//! say the same. What is written is decided in the domain crates; here it is only sent, so that
//! nothing is lost that others wrote in the meantime.

mod configs;
mod images;

pub use configs::Configs;
pub use images::{Policies, Refreshed, refresh};

/// How often a change is tried that others come before.
const ATTEMPTS: usize = 10;
