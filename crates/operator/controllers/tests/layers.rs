//! The layers of golden images end to end: an API server, nodes, the upstream CRDs, our controllers, and a stand-in for
//! CDI.

#[path = "common/genuine.rs"]
mod genuine;
#[path = "layers/importer.rs"]
mod importer;
#[path = "common/jobs.rs"]
mod jobs;
#[path = "common/ours.rs"]
mod ours;
#[path = "layers/stage.rs"]
mod stage;

#[path = "layers/examples.rs"]
mod examples;
#[path = "layers/machines.rs"]
mod machines;
#[path = "layers/nodes.rs"]
mod nodes;
#[path = "layers/ownership.rs"]
mod ownership;
#[path = "layers/policy.rs"]
mod policy;
#[path = "layers/removal.rs"]
mod removal;
#[path = "layers/switch.rs"]
mod switch;
#[path = "layers/templates.rs"]
mod templates;
#[path = "layers/upgrade.rs"]
mod upgrade;
#[path = "layers/view.rs"]
mod view;
