//! What happened to a configuration, from its status and its history.

use std::collections::BTreeMap;

use api::advisor::{
    Impact, Input, Operation, Phase, ProfileOptions, TargetRef, VirtPlatformConfig,
    VirtPlatformConfigStatus, names,
};
use jiff::Timestamp;
use kube_core::ResourceExt as _;
use machinery::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Chain;
use crate::approval::Approvals;
use crate::record::{PlanResult, Record};

/// Upper bound of the values of an item. Larger ones are replaced by their hash and size: a single object must not fill
/// a segment.
const VALUE_BYTES: usize = 96 << 10;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all_fields = "camelCase")]
pub enum Fact {
    /// A plan was made and waited for a review.
    Planned {
        /// The configuration.
        config: String,
        /// Its UID.
        uid: String,
        /// The digest of the plan.
        plan_digest: String,
        /// Its impact.
        impact: Option<Impact>,
        /// The version of the operator that made it.
        operator_version: Option<String>,
        /// The names of its items.
        items: Vec<String>,
    },
    /// A user approved a plan.
    Approved {
        /// The configuration.
        config: String,
        /// Its UID.
        uid: String,
        /// The digest of the plan; empty for an approval before there was one.
        plan_digest: String,
        /// The user, as the API server authenticated them.
        user: String,
        /// The groups of the user.
        groups: Vec<String>,
        /// When.
        at: Timestamp,
    },
    /// A user rejected a plan.
    Rejected {
        /// The configuration.
        config: String,
        /// Its UID.
        uid: String,
        /// The digest of the plan.
        plan_digest: String,
        /// The reason given.
        reason: Option<String>,
    },
    /// The execution of a plan began.
    Started {
        /// The configuration.
        config: String,
        /// Its UID.
        uid: String,
        /// The revision in the history.
        revision: i64,
        /// The digest of the plan.
        plan_digest: String,
        /// The impact of the plan.
        impact: Impact,
        /// The users whose approvals it is based on.
        approved_by: Vec<String>,
        /// The revision that it undoes.
        rollback_to: Option<i64>,
        /// Whether it only reverts drift.
        correction: bool,
        /// The options that it was derived from.
        options: Option<Box<ProfileOptions>>,
        /// The inputs that it was derived from.
        inputs: Vec<Input>,
        /// When.
        at: Timestamp,
    },
    /// An item of a plan whose execution began.
    Item {
        /// The configuration.
        config: String,
        /// Its UID.
        uid: String,
        /// The revision in the history.
        revision: i64,
        /// The item.
        item: String,
        /// Its target.
        target: TargetRef,
        /// What it does.
        operation: Operation,
        /// The values of its fields before; absent if the target did not exist.
        before: Option<Value>,
        /// The values of its fields after; absent if the target is deleted.
        after: Option<Value>,
        /// The owners of the fields before.
        owners: BTreeMap<String, String>,
        /// When the plan began.
        at: Timestamp,
    },
    /// The execution of a plan ended.
    Ended {
        /// The configuration.
        config: String,
        /// Its UID.
        uid: String,
        /// The revision in the history.
        revision: i64,
        /// The digest of the plan.
        plan_digest: String,
        /// The result.
        result: PlanResult,
        /// The message.
        message: String,
        /// When.
        at: Timestamp,
    },
}

impl Fact {
    /// Identifies the fact: it is in the log once.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Planned {
                uid, plan_digest, ..
            } => format!("{uid}/planned/{plan_digest}"),
            Self::Approved {
                uid,
                plan_digest,
                user,
                at,
                ..
            } => format!("{uid}/approved/{plan_digest}/{}/{user}", at.as_second()),
            Self::Rejected {
                uid, plan_digest, ..
            } => format!("{uid}/rejected/{plan_digest}"),
            Self::Started { uid, revision, .. } => format!("{uid}/started/{revision}"),
            Self::Item {
                uid,
                revision,
                item,
                ..
            } => format!("{uid}/item/{revision}/{item}"),
            Self::Ended { uid, revision, .. } => format!("{uid}/ended/{revision}"),
        }
    }

    /// When it happened, if that is recorded.
    pub(super) fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Planned { .. } | Self::Rejected { .. } => None,
            Self::Approved { at, .. }
            | Self::Started { at, .. }
            | Self::Item { at, .. }
            | Self::Ended { at, .. } => Some(*at),
        }
    }

    /// The order of facts of the same second.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Planned { .. } => 0,
            Self::Approved { .. } => 1,
            Self::Rejected { .. } => 2,
            Self::Started { .. } => 3,
            Self::Item { .. } => 4,
            Self::Ended { .. } => 5,
        }
    }

    /// The fact with values of a bounded size.
    pub(super) fn bounded(mut self) -> Self {
        if let Self::Item { before, after, .. } = &mut self {
            for value in [before, after].into_iter().flatten() {
                let text = json::to_vec(value);
                if text.len() > VALUE_BYTES {
                    let hash = crate::hash::hex(&Sha256::digest(&text));
                    *value = serde_json::json!({ "omittedBytes": text.len(), "sha256": hash });
                }
            }
        }
        self
    }
}

/// What is known to have happened to a configuration; `config` is absent if it was deleted. Executions that a chain has
/// completely are left out.
pub fn facts(
    name: &str,
    config: Option<&VirtPlatformConfig>,
    records: &[Record],
    chain: &Chain,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(config) = config {
        facts.extend(of_status(config));
    }
    let missing = records.iter().filter(|record| {
        let uid = record.config_uid.as_deref().unwrap_or_default();
        let revision = record.revision;
        // The last fact of an execution: those before it were stored before it.
        let last = match (&record.outcome, record.items.last()) {
            (Some(_), _) => format!("{uid}/ended/{revision}"),
            (None, Some(item)) => format!("{uid}/item/{revision}/{}", item.name),
            (None, None) => format!("{uid}/started/{revision}"),
        };
        !chain.knows(&last)
    });
    for record in missing {
        facts.extend(of_record(name, record));
    }
    facts
}

/// The plan under review, and its approvals.
fn of_status(config: &VirtPlatformConfig) -> Vec<Fact> {
    let name = config.name_any();
    let uid = config.metadata.uid.clone().unwrap_or_default();
    let mut facts = Vec::new();
    let waits_or_runs = |status: &&VirtPlatformConfigStatus| {
        let phases = [Phase::ReviewRequired, Phase::InProgress];
        status.phase.is_some_and(|phase| phases.contains(&phase))
    };
    if let Some(status) = config.status.as_ref().filter(waits_or_runs)
        && let Some(plan_digest) = status.plan_digest.clone()
    {
        facts.push(Fact::Planned {
            config: name.clone(),
            uid: uid.clone(),
            plan_digest,
            impact: status.impact_severity,
            operator_version: status.operator_version.clone(),
            items: status.items.iter().map(|item| item.name.clone()).collect(),
        });
    }
    let annotations = config.metadata.annotations.as_ref();
    let recorded = annotations.and_then(|all| all.get(names::APPROVALS));
    let approvals = Approvals::parse(recorded.map(String::as_str)).unwrap_or_default();
    facts.extend(approvals.all().iter().map(|entry| Fact::Approved {
        config: name.clone(),
        uid: uid.clone(),
        plan_digest: entry.digest.clone(),
        user: entry.user.clone(),
        groups: entry.groups.clone(),
        at: entry.at.0,
    }));
    let approval = config.spec.approval.as_ref();
    if let Some(rejected) = approval.and_then(|approval| approval.rejected.clone()) {
        facts.push(Fact::Rejected {
            config: name,
            uid,
            plan_digest: rejected.plan_digest,
            reason: rejected.reason,
        });
    }
    facts
}

/// The execution of a plan.
fn of_record(name: &str, record: &Record) -> Vec<Fact> {
    let (config, revision) = (name.to_owned(), record.revision);
    let uid = record.config_uid.clone().unwrap_or_default();
    let at = record.started.0;
    let approvals = record.approvals.iter().map(|entry| Fact::Approved {
        config: config.clone(),
        uid: uid.clone(),
        plan_digest: entry.digest.clone(),
        user: entry.user.clone(),
        groups: entry.groups.clone(),
        at: entry.at.0,
    });
    let mut facts: Vec<Fact> = approvals.collect();
    facts.push(Fact::Started {
        config: config.clone(),
        uid: uid.clone(),
        revision,
        plan_digest: record.plan_digest.clone(),
        impact: record.impact,
        approved_by: record.approved_by.clone(),
        rollback_to: record.rollback_to,
        correction: record.correction,
        options: record.options.clone().map(Box::new),
        inputs: record.inputs.clone(),
        at,
    });
    facts.extend(record.items.iter().map(|item| {
        let after = item.desired_state.as_ref();
        let after =
            after.and_then(|desired| crate::values::managed(desired, &item.managed_fields).ok());
        Fact::Item {
            config: config.clone(),
            uid: uid.clone(),
            revision,
            item: item.name.clone(),
            target: item.target_ref.clone(),
            operation: item.operation,
            before: item.before.as_ref().map(|before| serde_json::json!(before)),
            after: after
                .filter(|_| item.operation != Operation::Delete)
                .map(|after| serde_json::json!(after)),
            owners: item.owners.clone(),
            at,
        }
    }));
    facts.extend(record.outcome.as_ref().map(|outcome| Fact::Ended {
        config,
        uid,
        revision,
        plan_digest: record.plan_digest.clone(),
        result: outcome.result,
        message: outcome.message.clone(),
        at: outcome.finished.0,
    }));
    facts
}
