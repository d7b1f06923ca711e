//! Governance end to end: an API server, simulated upstream operators, and our controller.

#[path = "common/ours.rs"]
mod ours;
#[path = "common/rivals.rs"]
mod rivals;
#[path = "governance/stage.rs"]
mod stage;

#[path = "governance/alerts.rs"]
mod alerts;
#[path = "governance/approvals.rs"]
mod approvals;
#[path = "governance/beside.rs"]
mod beside;
#[path = "governance/dead_ends.rs"]
mod dead_ends;
#[path = "governance/definition.rs"]
mod definition;
#[path = "governance/density.rs"]
mod density;
#[path = "governance/drift.rs"]
mod drift;
#[path = "governance/health.rs"]
mod health;
#[path = "governance/in_flight.rs"]
mod in_flight;
#[path = "governance/kills.rs"]
mod kills;
#[path = "governance/locks.rs"]
mod locks;
#[path = "governance/notifications.rs"]
mod notifications;
#[path = "governance/profiles.rs"]
mod profiles;
#[path = "governance/remediation.rs"]
mod remediation;
#[path = "governance/rollback.rs"]
mod rollback;
#[path = "governance/stories.rs"]
mod stories;
#[path = "governance/truth.rs"]
mod truth;
#[path = "governance/upgrade.rs"]
mod upgrade;
#[path = "governance/windows.rs"]
mod windows;
