//! Condition and event reasons of all controllers, by component. Tests fail on an event that is not listed here.

use api::events;
use api::reasons::{Conditions, Event, has_event};
use runtime::{Events, Manager, UNDECODABLE};

use crate::{cpu, governance, images, placement, release, runtime_classes};

/// Component name of the `medley run` process itself.
pub const PROCESS: &str = runtime::COMPONENT;

/// A source of events.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// `reportingController` of its events.
    pub name: &'static str,
    /// Where it runs.
    pub about: &'static str,
    /// Events that it emits.
    pub events: &'static [Event],
}

/// All sources of events.
pub const COMPONENTS: &[Component] = &[
    Component {
        name: PROCESS,
        about: "`medley run` itself",
        events: events! {
            Normal "LeaderElection" "Lease" => "this replica became the leader";
            Warning UNDECODABLE "any watched kind"
                => "the object cannot be decoded and its current state is ignored; other objects are not affected";
        },
    },
    Component {
        name: governance::COMPONENT,
        about: "the job `governance`",
        events: ::governance::reasons::EVENTS,
    },
    Component {
        name: images::hco::COMPONENT,
        about: "the job `images-hco`",
        events: golden_images::reasons::HCO_EVENTS,
    },
    Component {
        name: images::ssp::COMPONENT,
        about: "the job `images-ssp`",
        events: golden_images::reasons::SSP_EVENTS,
    },
    Component {
        name: images::cdi::COMPONENT,
        about: "the job `images-cdi`",
        events: golden_images::reasons::CDI_EVENTS,
    },
    Component {
        name: images::vm::COMPONENT,
        about: "the job `images-vm`",
        events: golden_images::reasons::VM_EVENTS,
    },
    Component {
        name: cpu::COMPONENT,
        about: "the job `cpu-models`",
        events: cpu_models::reasons::EVENTS,
    },
    Component {
        name: release::COMPONENT,
        about: "the job `release`",
        events: ::release_migration::reasons::EVENTS,
    },
    Component {
        name: placement::COMPONENT,
        about: "the job `placement`",
        events: ::placement::reasons::EVENTS,
    },
    Component {
        name: runtime_classes::COMPONENT,
        about: "the job `runtime-classes`",
        events: ::placement::reasons::CLASS_EVENTS,
    },
];

/// The conditions of all kinds that controllers write.
pub const CONDITIONS: &[&[Conditions]] = &[
    ::governance::reasons::CONDITIONS,
    golden_images::reasons::CONDITIONS,
    golden_images::reasons::CDI_CONDITIONS,
    cpu_models::reasons::CONDITIONS,
    ::release_migration::reasons::CONDITIONS,
    ::release_migration::reasons::KEPT,
    ::placement::reasons::CONDITIONS,
];

/// An event recorder of a component, which checks that reasons are listed.
pub fn events(manager: &Manager, component: &'static str) -> Events {
    manager.events(component).knowing(is_explained)
}

fn is_explained(component: &str, reason: &str, warning: bool) -> bool {
    let mut known = COMPONENTS.iter();
    known.any(|one| one.name == component && has_event(one.events, reason, warning))
}
