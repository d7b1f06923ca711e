//! User actions on a cluster: reading and changing the objects that hold the desired state.
//!
//! The command line and the console share this code, so that both accept and write the same, with
//! the same messages. The domain crates decide what to write; this crate sends it without losing
//! concurrent changes.

mod acting;
mod configs;
mod hand_over;
mod images;
mod layers;
mod placement;
mod profiles;
mod upstream_pins;

pub use acting::{
    Acting, Operators, acting, acting_on_pins, acting_on_polls, operators, running_cdi,
};
pub use configs::{Configs, registry};
pub use hand_over::{hand_over, take_step};
pub use images::{Policies, Refreshed, refresh};
pub use layers::scale;
pub use placement::{gated_pods, release_pod};
pub use profiles::registry_of;
pub use upstream_pins::{PinChange, PlannedPin, apply_pins, plan_pins};

/// Attempts to write a change that conflicts with other writers.
// Enough for controllers that write a status every second or so; beyond that another writer is in a
// loop, and the user should know.
const ATTEMPTS: usize = 10;
