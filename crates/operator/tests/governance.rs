//! Governance end to end: an API server, the operators of others, and ours.

#[path = "governance/stage.rs"]
mod stage;

#[path = "governance/drift.rs"]
mod drift;
#[path = "governance/kills.rs"]
mod kills;
#[path = "governance/locks.rs"]
mod locks;
#[path = "governance/rollback.rs"]
mod rollback;
#[path = "governance/stories.rs"]
mod stories;
#[path = "governance/upgrade.rs"]
mod upgrade;
