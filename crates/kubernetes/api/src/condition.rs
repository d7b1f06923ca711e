//! Conditions of our kinds: what is said, and since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::words::{Conditions, says};

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in a word.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
}

impl Said {
    /// Says it.
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

    /// Whether what it says is explained by one of these.
    pub fn is_among(&self, explained: &[Conditions]) -> bool {
        let status = if self.holds { "True" } else { "False" };
        says(explained, self.kind, status, self.reason)
    }

    /// The condition. Its time moves when it holds or does not any more, by what is `known`.
    pub fn condition(
        self,
        known: &[Condition],
        now: Timestamp,
        generation: Option<i64>,
    ) -> Condition {
        let status = if self.holds { "True" } else { "False" };
        let mut known = known.iter();
        let same = known.find(|known| known.type_ == self.kind && known.status == status);
        // The API keeps no parts of seconds; a time that has some would never be what was written.
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
