//! Conditions in both forms: those of `metav1`, and those of CDI.
//!
//! In both, `lastTransitionTime` changes only when the status does.

#[cfg(test)]
mod tests;

use api::cdi;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use crate::reasons;

/// Longest message in characters.
const MAX_MESSAGE_CHARS: usize = 2048;

/// A condition to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// Its type.
    pub kind: &'static str,
    /// Its status.
    pub status: bool,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl ConditionUpdate {
    /// A condition; in debug builds, its reason must be documented in `reasons.rs`.
    pub fn new(
        kind: &'static str,
        status: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let update = Self {
            kind,
            status,
            reason: reason.into(),
            message: short(&message.into()),
        };
        debug_assert!(
            reasons::knows(kind, update.status_text(), &update.reason),
            "{kind}={} {} is not documented in reasons.rs",
            update.status_text(),
            update.reason
        );
        update
    }

    fn status_text(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }

    /// The `metav1` condition; keeps the transition time of an equal status.
    pub fn standard(
        &self,
        before: &[Condition],
        now: Timestamp,
        generation: Option<i64>,
    ) -> Condition {
        let status = self.status_text();
        let mut before = before.iter();
        let same = before.find(|known| known.type_ == self.kind && known.status == status);
        Condition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            last_transition_time: same
                .map_or_else(|| Time(whole(now)), |it| it.last_transition_time.clone()),
            observed_generation: generation,
        }
    }

    /// Sets the `metav1` condition in a list; conditions of other controllers stay unchanged.
    pub fn place(&self, conditions: &mut Vec<Value>, now: Timestamp, generation: Option<i64>) {
        let own = conditions
            .iter_mut()
            .find(|known| known["type"] == self.kind);
        let before: Option<Condition> = own
            .as_ref()
            .and_then(|own| serde_json::from_value((**own).clone()).ok());
        let condition = json!(self.standard(before.as_slice(), now, generation));
        match own {
            Some(own) => *own = condition,
            None => conditions.push(condition),
        }
    }

    /// Sets the CDI condition in a list. `lastHeartbeatTime` changes with any of its fields.
    pub fn put(&self, conditions: &mut Vec<cdi::Condition>, now: Timestamp) {
        let status = self.status_text();
        let now = Time(whole(now));
        let known = conditions.iter_mut().find(|known| known.kind == self.kind);
        let Some(known) = known else {
            conditions.push(cdi::Condition {
                kind: self.kind.to_owned(),
                status: status.to_owned(),
                reason: Some(self.reason.clone()),
                message: Some(self.message.clone()),
                last_transition_time: Some(now.clone()),
                last_heartbeat_time: Some(now),
                ..cdi::Condition::default()
            });
            return;
        };
        if known.status != status {
            status.clone_into(&mut known.status);
            known.last_transition_time = Some(now.clone());
        } else if known.reason.as_ref() == Some(&self.reason)
            && known.message.as_ref() == Some(&self.message)
        {
            return;
        }
        known.reason = Some(self.reason.clone());
        known.message = Some(self.message.clone());
        known.last_heartbeat_time = Some(now);
    }
}

/// The CDI condition of a type.
pub fn get<'a>(conditions: &'a [cdi::Condition], kind: &str) -> Option<&'a cdi::Condition> {
    conditions.iter().find(|known| known.kind == kind)
}

/// Truncates to whole seconds, the precision of the API.
pub fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn short(message: &str) -> String {
    if message.chars().nth(MAX_MESSAGE_CHARS).is_none() {
        return message.to_owned();
    }
    message
        .chars()
        .take(MAX_MESSAGE_CHARS - 1)
        .chain(['…'])
        .collect()
}
