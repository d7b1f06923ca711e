//! Conditions of Medley's kinds.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::reasons::{Conditions, has_condition};

/// The contents of a condition, without its transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionContent {
    /// The condition type.
    pub kind: &'static str,
    /// Whether the status is `True`.
    pub holds: bool,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
}

impl ConditionContent {
    /// A condition without transition time.
    pub fn new(
        kind: &'static str,
        holds: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            holds,
            reason,
            message: message.into(),
        }
    }

    /// Whether the combination of type, status and reason is documented.
    pub fn is_among(&self, explained: &[Conditions]) -> bool {
        let status = if self.holds { "True" } else { "False" };
        has_condition(explained, self.kind, status, self.reason)
    }

    /// The condition. Its transition time changes only if the status differs from that in `known`.
    pub fn condition(
        self,
        known: &[Condition],
        now: Timestamp,
        generation: Option<i64>,
    ) -> Condition {
        let status = if self.holds { "True" } else { "False" };
        let mut known = known.iter();
        let same = known.find(|known| known.type_ == self.kind && known.status == status);
        // The API stores whole seconds; a fraction would make every comparison with the stored value
        // fail.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Condition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            last_transition_time: same
                .map_or_else(|| Time(now), |same| same.last_transition_time.clone()),
            observed_generation: generation,
        }
    }
}
