//! The history: what was carried out, who approved it, what was there before, and how it ended.
//!
//! A record is written before the first item is applied and never changed; how it ended is added
//! when it has. So whatever happens to the operator, what it replaced is known.

use std::collections::BTreeMap;

use api::advisor::{Applied, Impact, Input, Operation, ProfileOptions, TargetRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Entry;

/// How many plans are remembered.
const REMEMBERED: usize = 10;

/// A plan that was carried out, or is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its number: one more than the one before.
    pub revision: i64,
    /// The digest of the plan.
    pub plan_digest: String,
    /// The revision that it undoes, with all later ones, if it is a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
    /// Whether it only put back what somebody had changed, because locks are bypassed.
    #[serde(default)]
    pub correction: bool,
    /// Users who approved it, by name; empty where none had to and admission does not record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// The approvals that this entry used up. They count for no other plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Entry>,
    /// `metadata.uid` of the configuration; entries outlive the object that they were written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_uid: Option<String>,
    /// The worst impact of its items.
    pub impact: Impact,
    /// Whose logic made it.
    pub operator_version: String,
    /// The options that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ProfileOptions>,
    /// What it was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// What it changes, with what was there before.
    pub items: Vec<RecordedItem>,
    /// When it began.
    pub started: Time,
    /// How it ended; kept beside the record, which never changes.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
}

/// The revisions that can be forgotten: all but the last ten plans, the last ten corrections (an edit
/// war must not push out what people approved), what is under way, and what is needed to undo what is
/// in force.
pub fn forgettable(records: &[Record], in_force: &[Applied]) -> Vec<i64> {
    let mut kept = [0, 0];
    let mut forgotten = Vec::new();
    for record in records.iter().rev() {
        let count = &mut kept[usize::from(record.correction)];
        *count += 1;
        let needed = in_force
            .iter()
            .any(|applied| applied.revision == record.revision);
        if *count > REMEMBERED && !needed && record.outcome.is_some() {
            forgotten.push(record.revision);
        }
    }
    forgotten
}

/// An item of a plan that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedItem {
    /// What it is called.
    pub name: String,
    /// What it changes.
    pub target_ref: TargetRef,
    /// How.
    #[serde(default)]
    pub operation: Operation,
    /// The object that is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_state: Option<Value>,
    /// The fields that it manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<String>,
    /// What the managed fields were; absent if there was no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BTreeMap<String, Value>>,
    /// Who owned the managed fields, by path, as far as somebody did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<String, String>,
    /// What changed, as it was reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// How a plan ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// In a word.
    pub result: Ending,
    /// When.
    pub finished: Time,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How a plan ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// All items were applied and became healthy.
    Completed,
    /// Some items failed, the others were applied.
    CompletedWithErrors,
    /// It was stopped by a failure or by a stale lock.
    Failed,
    /// Somebody asked for something else before it was done.
    Superseded,
}

#[cfg(test)]
mod tests;
