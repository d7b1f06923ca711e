//! Placement end to end: an API server, a fleet of unlike nodes, a real registry, our admission check and
//! our controller, each with the rights that are shipped and no others.

#[path = "placement/images.rs"]
mod images;
#[path = "common/ours.rs"]
mod ours;
#[path = "placement/stage.rs"]
mod stage;

#[path = "placement/down.rs"]
mod down;
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
