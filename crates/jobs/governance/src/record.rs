//! The history: executed plans, their approvers, the previous values, and the outcomes.
//!
//! A record is written before the first item is applied and never changed; the outcome is added at the end. So the
//! replaced values are known even if the operator is killed.

use std::collections::BTreeMap;

use api::advisor::{Applied, Impact, Input, Operation, ProfileOptions, TargetRef};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Entry;

/// Label of a ControllerRevision of the history: the configuration.
pub const CONFIG_LABEL: &str = "advisor.kubevirt.io/config";
/// Annotation of a ControllerRevision of the history: the outcome of the plan, as JSON.
pub const OUTCOME_ANNOTATION: &str = "advisor.kubevirt.io/outcome";

/// Number of plans to keep.
///
/// As many as `revisionHistoryLimit` of Deployments and StatefulSets by default.
const KEPT_PLANS: usize = 10;

/// A plan that was or is being executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its number: one more than the previous one.
    pub revision: i64,
    /// The digest of the plan.
    pub plan_digest: String,
    /// The revision that it undoes, with all later ones, if it is a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
    /// Whether it only reverted drift, because locks are bypassed.
    #[serde(default)]
    pub correction: bool,
    /// Names of the approvers; empty where none were required and admission does not record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// The approvals that this entry used up. They count for no other plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Entry>,
    /// `metadata.uid` of the configuration; entries outlive the object that they were written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_uid: Option<String>,
    /// The highest impact of its items.
    pub impact: Impact,
    /// The version of the operator that generated it.
    pub operator_version: String,
    /// The options that it was derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ProfileOptions>,
    /// The inputs that it was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Its items, with the previous values.
    pub items: Vec<RecordedItem>,
    /// The start time.
    pub started: Time,
    /// The outcome; stored beside the record, which never changes.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
}

/// The records of these entries, oldest first; ControllerRevisions of other controllers are skipped.
pub fn records_of<'a>(entries: impl IntoIterator<Item = &'a ControllerRevision>) -> Vec<Record> {
    let records = entries.into_iter().filter_map(decode);
    let mut records: Vec<Record> = records.collect();
    records.sort_by_key(|record| record.revision);
    records
}

fn decode(entry: &ControllerRevision) -> Option<Record> {
    let data = entry.data.as_ref()?.0.clone();
    let mut record: Record = serde_json::from_value(data).ok()?;
    let annotations = entry.metadata.annotations.as_ref();
    let outcome = annotations.and_then(|all| all.get(OUTCOME_ANNOTATION));
    // In an annotation because the API server rejects a change of `data` (`ValidateControllerRevisionUpdate` in
    // pkg/apis/apps/validation). An unreadable outcome counts as none.
    record.outcome = outcome.and_then(|encoded| serde_json::from_str(encoded).ok());
    Some(record)
}

/// The revisions that can be deleted: all but the latest ten plans, the latest ten corrections (an edit conflict must
/// not displace approved plans), the one in progress, and those needed to undo applied state.
pub fn prunable(records: &[Record], in_force: &[Applied]) -> Vec<i64> {
    let mut kept = [0, 0];
    let mut forgotten = Vec::new();
    for record in records.iter().rev() {
        let count = &mut kept[usize::from(record.correction)];
        *count += 1;
        let needed = in_force
            .iter()
            .any(|applied| applied.revision == record.revision);
        if *count > KEPT_PLANS && !needed && record.outcome.is_some() {
            forgotten.push(record.revision);
        }
    }
    forgotten
}

/// The latest entry without an outcome that belongs to another plan than the current one, which is given by its revision
/// and its digest: no operator will finish it.
pub fn abandoned(
    records: &[Record],
    (revision, digest): (Option<i64>, Option<&str>),
) -> Option<i64> {
    let mut open = records.iter().rev().filter(|it| it.outcome.is_none());
    let other = open.find(|record| {
        Some(record.revision) != revision && Some(record.plan_digest.as_str()) != digest
    });
    other.map(|record| record.revision)
}

/// The outcome of a plan that is not continued.
pub fn superseded(why: &str, now: Timestamp) -> Outcome {
    Outcome {
        result: PlanResult::Superseded,
        finished: Time(now),
        message: why.to_owned(),
    }
}

/// An item of an executed plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedItem {
    /// Its name.
    pub name: String,
    /// Its target.
    pub target_ref: TargetRef,
    /// Its operation.
    #[serde(default)]
    pub operation: Operation,
    /// The applied object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_state: Option<Value>,
    /// The fields that it manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<String>,
    /// The previous values of the managed fields; absent if the target did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BTreeMap<String, Value>>,
    /// The previous owners of the managed fields by path, if any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<String, String>,
    /// The reviewed diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// The outcome of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The result.
    pub result: PlanResult,
    /// The end time.
    pub finished: Time,
    /// The message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The result of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanResult {
    /// All items were applied and became healthy.
    Completed,
    /// Some items failed, the others were applied.
    CompletedWithErrors,
    /// It was stopped by a failure or by a stale lock.
    Failed,
    /// The spec changed before it was done.
    Superseded,
}

#[cfg(test)]
mod tests;
