//! Placement end to end: an API server, a heterogeneous fleet, a real registry, our webhook and our controller, each
//! with the RBAC that is shipped and no more.

#[path = "placement/images.rs"]
mod images;
#[path = "common/ours.rs"]
mod ours;
#[path = "common/rivals.rs"]
mod rivals;
#[path = "placement/stage.rs"]
mod stage;

#[path = "placement/abandoned.rs"]
mod abandoned;
#[path = "placement/beside.rs"]
mod beside;
#[path = "placement/chaos.rs"]
mod chaos;
#[path = "placement/down.rs"]
mod down;
#[path = "placement/exempt.rs"]
mod exempt;
#[path = "placement/hostile.rs"]
mod hostile;
#[path = "placement/owners.rs"]
mod owners;
#[path = "placement/places.rs"]
mod places;
#[path = "placement/policies.rs"]
mod policies;
#[path = "placement/secrets.rs"]
mod secrets;
