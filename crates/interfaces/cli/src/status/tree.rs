//! What is shown: jobs, their objects, and what those say.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Standard;
use serde::Serialize;

use super::Name;

/// How it is with something, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum State {
    /// What it is about is not installed.
    Off,
    /// It is as it should be.
    Ready,
    /// It is on its way.
    Progressing,
    /// Nobody may look.
    Unknown,
    /// Somebody should look.
    Attention,
}

impl State {
    /// Whether there is nothing to wait for or to do.
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
    /// Its name, as the command line takes it.
    #[serde(rename = "job")]
    pub(crate) name: &'static str,
    #[serde(skip)]
    pub(crate) title: &'static str,
    /// The worst of what follows.
    pub(crate) state: State,
    /// A sentence.
    pub(crate) message: String,
    /// What it is about.
    pub(crate) objects: Vec<Object>,
}

impl Job {
    /// With nothing to say yet.
    pub(crate) fn new(name: Name) -> Self {
        Self {
            name: name.word(),
            title: name.title(),
            state: State::Ready,
            message: String::new(),
            objects: Vec::new(),
        }
    }

    /// Whose kinds are not installed.
    pub(crate) fn off(name: Name, missing: &str, from: &str) -> Self {
        Self {
            state: State::Off,
            message: format!("{missing} is not installed in this cluster; it comes with {from}"),
            ..Self::new(name)
        }
    }

    /// As bad as the worst of its objects.
    pub(crate) fn with(mut self, objects: Vec<Object>, message: String) -> Self {
        let worst = objects.iter().map(|it| it.state).max();
        self.state = worst.map_or(self.state, |worst| worst.max(self.state));
        self.objects = objects;
        self.message = message;
        self
    }
}

/// An object, or what is a part of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) state: State,
    /// Why, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    /// Why, in a sentence.
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

    /// With what its conditions say; the state follows from them.
    pub(crate) fn of_conditions(
        kind: &'static str,
        name: impl Into<String>,
        conditions: &[Standard],
    ) -> Self {
        let conditions: Vec<Condition> = conditions.iter().map(Condition::of).collect();
        let worst = conditions.iter().map(|it| it.mood().state()).max();
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

/// What an object says of itself.
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
    /// Whether it says nothing that people have to read.
    #[serde(skip)]
    pub(crate) quiet: bool,
}

/// What a condition means to whoever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    Busy,
    Bad,
    Neutral,
}

impl Mood {
    fn state(self) -> State {
        match self {
            Self::Good | Self::Neutral => State::Ready,
            Self::Busy => State::Progressing,
            Self::Bad => State::Attention,
        }
    }
}

/// Conditions that are bad when they are true.
const BAD_IF_TRUE: [&str; 9] = [
    "CompletedWithErrors",
    "Degraded",
    "Drifted",
    "Failed",
    "Failing",
    "InputDependencyDrift",
    "PlanStale",
    "PrerequisiteFailed",
    "ReviewRequired",
];
/// Conditions that say that something is under way.
const BUSY_IF_TRUE: [&str; 4] = ["Drafting", "InProgress", "Pending", "Progressing"];
/// Conditions that are neither good nor bad, whatever they are.
const NEUTRAL: [&str; 8] = [
    "Approved",
    "CompletedWithUpgrade",
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

    /// Of an object of OpenShift.
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

    /// What it means.
    pub(crate) fn mood(&self) -> Mood {
        let kind = self.kind.as_str();
        match self.status.as_str() {
            _ if NEUTRAL.contains(&kind) => Mood::Neutral,
            "True" if BAD_IF_TRUE.contains(&kind) => Mood::Bad,
            "True" if BUSY_IF_TRUE.contains(&kind) => Mood::Busy,
            "True" => Mood::Good,
            "False" if BAD_IF_TRUE.contains(&kind) || BUSY_IF_TRUE.contains(&kind) => Mood::Good,
            "False" => Mood::Bad,
            _ => Mood::Neutral,
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
    fn what_is_good_depends_on_the_condition() {
        for (kind, status, expected) in [
            ("Ready", "True", Mood::Good),
            ("Ready", "False", Mood::Bad),
            ("Ready", "Unknown", Mood::Neutral),
            ("Degraded", "True", Mood::Bad),
            ("Degraded", "False", Mood::Good),
            ("Progressing", "True", Mood::Busy),
            ("Progressing", "False", Mood::Good),
            ("Upgradeable", "False", Mood::Neutral),
        ] {
            let mood = condition(kind, status).mood();
            assert_eq!(mood, expected, "{kind}={status}");
        }
    }

    #[test]
    fn a_job_is_as_bad_as_the_worst_of_its_objects() {
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
