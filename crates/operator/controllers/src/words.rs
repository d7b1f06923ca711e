//! What the controllers say: the words of all of them, by component. Events that are not explained here do
//! not get through the tests.

use api::words::{Conditions, Event, normal, tells};
use runtime::{Events, Manager};

use crate::{cpu, governance, images, placement, release, runtime_classes};

/// What the process is called that runs the controllers.
pub const PROCESS: &str = "medley";

/// Who says something.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// What it is called, as events name it.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The events that it tells.
    pub events: &'static [Event],
}

/// Everybody who tells events.
pub const COMPONENTS: &[Component] = &[
    Component {
        name: PROCESS,
        about: "`medley run` itself",
        events: &[normal(
            "LeaderElection",
            "Lease",
            "this replica works from now on",
        )],
    },
    Component {
        name: governance::COMPONENT,
        about: "the job `governance`",
        events: ::governance::words::EVENTS,
    },
    Component {
        name: images::hco::COMPONENT,
        about: "the job `images-hco`",
        events: golden_images::words::HCO_EVENTS,
    },
    Component {
        name: images::ssp::COMPONENT,
        about: "the job `images-ssp`",
        events: golden_images::words::SSP_EVENTS,
    },
    Component {
        name: images::cdi::COMPONENT,
        about: "the job `images-cdi`",
        events: golden_images::words::CDI_EVENTS,
    },
    Component {
        name: images::vm::COMPONENT,
        about: "the job `images-vm`",
        events: golden_images::words::VM_EVENTS,
    },
    Component {
        name: cpu::COMPONENT,
        about: "the job `cpu-models`",
        events: cpu_models::words::EVENTS,
    },
    Component {
        name: release::COMPONENT,
        about: "the job `release`",
        events: ::release_migration::words::EVENTS,
    },
    Component {
        name: placement::COMPONENT,
        about: "the job `placement`",
        events: ::placement::words::EVENTS,
    },
    Component {
        name: runtime_classes::COMPONENT,
        about: "the job `runtime-classes`",
        events: ::placement::words::CLASS_EVENTS,
    },
];

/// The conditions of all kinds that controllers write.
pub const CONDITIONS: &[&[Conditions]] = &[
    ::governance::words::CONDITIONS,
    golden_images::words::CONDITIONS,
    golden_images::words::CDI_CONDITIONS,
    cpu_models::words::CONDITIONS,
    ::release_migration::words::CONDITIONS,
    ::release_migration::words::KEPT,
    ::placement::words::CONDITIONS,
];

/// Tells events in the name of a component.
pub fn events(manager: &Manager, component: &'static str) -> Events {
    manager.events(component).knowing(is_explained)
}

fn is_explained(component: &str, reason: &str, warning: bool) -> bool {
    let mut known = COMPONENTS.iter();
    known.any(|one| one.name == component && tells(one.events, reason, warning))
}
