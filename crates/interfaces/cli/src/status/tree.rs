//! The tree: jobs, their objects, and the conditions of those.

use std::fmt;

use api::mode::{Mode, Ownership, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Standard;
use serde::Serialize;

use super::Name;

/// State of a job or object, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum State {
    /// The CRDs are not installed.
    Off,
    /// As desired.
    Ready,
    /// In progress.
    Progressing,
    /// It cannot be read.
    Unknown,
    /// The user should inspect it.
    Attention,
}

impl State {
    /// Whether there is nothing to wait for and nothing to do.
    pub(crate) fn is_settled(self) -> bool {
        self <= Self::Ready
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Job {
    /// Its name, as on the command line.
    #[serde(rename = "job")]
    pub(crate) name: Name,
    /// The worst state of its objects.
    pub(crate) state: State,
    /// A one-sentence summary.
    pub(crate) message: String,
    /// Its mode beside other operators; `None` if it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ownership: Option<OwnershipReport>,
    /// The objects of the job.
    pub(crate) objects: Vec<Object>,
}

/// The mode of a job beside other operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OwnershipReport {
    pub(crate) mode: Mode,
    /// Who writes the objects of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl OwnershipReport {
    /// Whether it is left out of the tree: the job writes its objects, and no other operator does.
    pub(crate) fn is_quiet(&self) -> bool {
        self.reason == reasons::MANAGING
    }
}

impl Job {
    /// Without objects or a summary.
    pub(crate) fn new(name: Name) -> Self {
        Self {
            name,
            state: State::Ready,
            message: String::new(),
            ownership: None,
            objects: Vec::new(),
        }
    }

    /// With its mode beside other operators.
    pub(crate) fn owned(self, ownership: Ownership) -> Self {
        Self {
            ownership: Some(OwnershipReport {
                mode: ownership.mode,
                owner: ownership.owner,
                reason: ownership.reason,
                message: ownership.message,
            }),
            ..self
        }
    }

    /// A job whose CRDs are not installed.
    pub(crate) fn off(name: Name, missing: &str, from: &str) -> Self {
        Self {
            state: State::Off,
            message: format!("{missing} is not installed in this cluster; it comes with {from}"),
            ..Self::new(name)
        }
    }

    /// Takes the worst state of its objects.
    pub(crate) fn with(mut self, objects: Vec<Object>, message: String) -> Self {
        let worst = objects.iter().map(|it| it.state).max();
        self.state = worst.map_or(self.state, |worst| worst.max(self.state));
        self.objects = objects;
        self.message = message;
        self
    }
}

/// An object, or a part of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) state: State,
    /// The reason, in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Self>,
}

impl Object {
    pub(crate) fn new(kind: &'static str, name: impl Into<String>, state: State) -> Self {
        Self {
            kind,
            namespace: None,
            name: name.into(),
            state,
            reason: None,
            since: None,
            message: None,
            conditions: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// From its conditions, which determine the state.
    pub(crate) fn of_conditions(
        kind: &'static str,
        name: impl Into<String>,
        conditions: Option<&[Standard]>,
    ) -> Self {
        let conditions = conditions.unwrap_or_default().iter();
        let conditions: Vec<Condition> = conditions.map(Condition::of).collect();
        let worst = conditions.iter().map(|it| it.meaning().state()).max();
        let mut object = Self::new(kind, name, worst.unwrap_or(State::Ready));
        object.conditions = conditions;
        object
    }

    /// `Kind/namespace/name`.
    pub(crate) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/{namespace}/{}", self.kind, self.name),
            None => format!("{}/{}", self.kind, self.name),
        }
    }
}

/// A status condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<Timestamp>,
    /// Whether it is left out of the tree.
    #[serde(skip)]
    pub(crate) quiet: bool,
}

/// How a condition is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Good,
    Busy,
    Bad,
    Neutral,
}

impl Meaning {
    fn state(self) -> State {
        match self {
            Self::Good | Self::Neutral => State::Ready,
            Self::Busy => State::Progressing,
            Self::Bad => State::Attention,
        }
    }
}

/// Condition types that are bad when true.
const BAD_IF_TRUE: [&str; 10] = [
    "CompletedWithErrors",
    "Contested",
    "Degraded",
    "Drifted",
    "Failed",
    "Failing",
    "InputDependencyDrift",
    "PlanStale",
    "PrerequisiteFailed",
    "ReviewRequired",
];
/// Condition types that are in progress when true.
const BUSY_IF_TRUE: [&str; 4] = ["Drafting", "InProgress", "Pending", "Progressing"];
/// Condition types that are neither good nor bad.
const NEUTRAL: [&str; 14] = [
    "Approved",
    "CompletedWithUpgrade",
    // Of the policies: beside a genuine operator, that Medley does not manage is as it should be.
    "Covered",
    "Managing",
    "ManagingImports",
    "ManagingMachines",
    "ManagingTemplates",
    "SwitchFollowed",
    "ImplicitlyEnabledCapabilities",
    "Ignored",
    "ProfileActive",
    "RetrievedUpdates",
    "UpgradeAvailable",
    "Upgradeable",
];

impl Condition {
    pub(crate) fn of(condition: &Standard) -> Self {
        Self {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition_time: Some(condition.last_transition_time.0),
            quiet: false,
        }
    }

    /// From a condition of an OpenShift object.
    pub(crate) fn of_openshift(condition: &api::openshift::Condition) -> Self {
        Self {
            kind: condition.kind.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition_time: condition.last_transition_time.as_ref().map(|it| it.0),
            quiet: false,
        }
    }

    /// How the condition is to be read.
    pub(crate) fn meaning(&self) -> Meaning {
        let kind = self.kind.as_str();
        match self.status.as_str() {
            _ if NEUTRAL.contains(&kind) => Meaning::Neutral,
            "True" if BAD_IF_TRUE.contains(&kind) => Meaning::Bad,
            "True" if BUSY_IF_TRUE.contains(&kind) => Meaning::Busy,
            "True" => Meaning::Good,
            "False" if BAD_IF_TRUE.contains(&kind) || BUSY_IF_TRUE.contains(&kind) => Meaning::Good,
            "False" => Meaning::Bad,
            _ => Meaning::Neutral,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: "X".to_owned(),
            message: String::new(),
            last_transition_time: None,
            quiet: false,
        }
    }

    #[test]
    fn condition_type_decides_what_true_means() {
        for (kind, status, expected) in [
            ("Ready", "True", Meaning::Good),
            ("Ready", "False", Meaning::Bad),
            ("Ready", "Unknown", Meaning::Neutral),
            ("Degraded", "True", Meaning::Bad),
            ("Degraded", "False", Meaning::Good),
            ("Progressing", "True", Meaning::Busy),
            ("Progressing", "False", Meaning::Good),
            ("Upgradeable", "False", Meaning::Neutral),
        ] {
            let meaning = condition(kind, status).meaning();
            assert_eq!(meaning, expected, "{kind}={status}");
        }
    }

    #[test]
    fn job_takes_the_worst_state_of_its_objects() {
        let object = |state| Object::new("Pod", "p", state);
        let job = |states: &[State]| {
            let objects = states.iter().map(|it| object(*it)).collect();
            Job::new(Name::Cpu).with(objects, String::new()).state
        };
        assert_eq!(job(&[]), State::Ready);
        assert_eq!(job(&[State::Ready, State::Progressing]), State::Progressing);
        assert_eq!(
            job(&[State::Attention, State::Unknown, State::Ready]),
            State::Attention
        );
        assert!(State::Off.is_settled() && !State::Unknown.is_settled());
    }
}
