//! Conditions, of both forms: those of `metav1`, and those of CDI.
//!
//! In both, `lastTransitionTime` moves when the status does, and never otherwise.

#[cfg(test)]
mod tests;

use api::cdi;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use crate::words;

/// How many characters a message may have.
const LONGEST: usize = 2048;

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What it is about.
    pub kind: &'static str,
    /// Whether it is so.
    pub status: bool,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Said {
    /// Something that is so, or is not.
    pub fn new(
        kind: &'static str,
        status: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let said = Self {
            kind,
            status,
            reason: reason.into(),
            message: short(&message.into()),
        };
        debug_assert!(
            words::knows(kind, said.status_text(), &said.reason),
            "{kind}={} {} is not explained in words.rs",
            said.status_text(),
            said.reason
        );
        said
    }

    fn status_text(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }

    /// As `metav1` has it, going on from what was said before.
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

    /// Puts the condition, as `metav1` has it, among those of others, which are left as they are.
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

    /// Sets the condition as CDI has it. The heartbeat moves when anything about it does.
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

/// A condition of CDI by what it is about.
pub fn get<'a>(conditions: &'a [cdi::Condition], kind: &str) -> Option<&'a cdi::Condition> {
    conditions.iter().find(|known| known.kind == kind)
}

/// Whole seconds: what the API keeps of a time.
pub fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn short(message: &str) -> String {
    if message.chars().nth(LONGEST).is_none() {
        return message.to_owned();
    }
    message.chars().take(LONGEST - 1).chain(['…']).collect()
}
