//! Notifications: which receivers learn of which phase of a configuration, exactly once as far as this side can tell.
//!
//! ```text
//! VirtPlatformConfig, ApprovalPolicies, Sent --due--> Deliveries --payload, signature--> HTTP requests (the edge)
//!                                      ^                                                       |
//!                                      '------------------ record <------- delivered ---------'
//! ```
//!
//! A notification has an identity that follows from the configuration, its plan, and the phase with the time of its
//! beginning. What was delivered is remembered by that identity, so neither a restart nor another replica sends it
//! again; after a crash between delivery and record, the receiver recognises the repetition by the same identity.

mod payload;
mod signature;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::advisor::{Action, Impact, Phase, VirtPlatformConfig};
use api::approval::{NotificationFormat, Receiver};
use jiff::Timestamp;
use kube_core::ResourceExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use payload::{Payload, payload};
pub use signature::{SIGNATURE_HEADER, signature};

use crate::approval::Policy;
use crate::conditions;

/// The Secret in the operator's namespace with URLs and keys of all receivers. One name, so that RBAC can grant it alone.
pub const SECRET: &str = "medley-notifications";
/// The ConfigMap in the operator's namespace that remembers what was delivered.
pub const SENT: &str = "medley-notifications-sent";

/// The phases of which receivers are notified by default: those that wait for a person.
pub const DEFAULT_PHASES: [Phase; 6] = [
    Phase::ReviewRequired,
    Phase::Drifted,
    Phase::Failed,
    Phase::PrerequisiteFailed,
    Phase::CompletedWithErrors,
    Phase::CompletedWithUpgrade,
];

/// Items that a notification lists; the others are counted.
const LISTED_ITEMS: usize = 10;

/// A configuration has entered a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// Identifies it: the same for every attempt and every replica.
    pub id: String,
    /// The configuration.
    pub config: String,
    /// The phase.
    pub phase: Phase,
    /// When the phase began.
    pub since: Timestamp,
    /// The message of the phase.
    pub message: String,
    /// The digest of the plan.
    pub digest: Option<String>,
    /// The impact of the plan.
    pub impact: Option<Impact>,
    /// What the plan does, one line for each of its first items.
    pub items: Vec<String>,
    /// The number of the other items.
    pub more_items: usize,
    /// The page of the plan in the console.
    pub link: Option<String>,
}

impl Notification {
    /// Whether a plan waits for an approval.
    pub fn asks_for_approval(&self) -> bool {
        self.phase == Phase::ReviewRequired
    }

    /// The command that shows or approves the plan.
    pub fn command(&self) -> String {
        let verb = if self.asks_for_approval() {
            "approve"
        } else {
            "explain"
        };
        format!("medley {verb} {}", self.config)
    }
}

/// A request to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Whom to notify.
    pub receiver: Receiver,
    /// Of what.
    pub notification: Notification,
    /// For receivers that keep state: when the phase ended. Absent if it holds.
    pub ended: Option<Timestamp>,
}

/// What was delivered last, by receiver and configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent(BTreeMap<String, SentEntry>);

/// The last delivery to a receiver about a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentEntry {
    id: String,
    phase: Phase,
    since: Timestamp,
    /// Whether the receiver knows that the phase has ended.
    #[serde(default)]
    ended: bool,
}

impl Sent {
    /// Reads the data of the ConfigMap. An unreadable entry is forgotten, which repeats one notification at most.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let entries = data.iter().filter_map(|(key, text)| {
            let entry = serde_json::from_str(text).ok()?;
            Some((key.clone(), entry))
        });
        Self(entries.collect())
    }

    /// The data of the ConfigMap.
    pub fn data(&self) -> BTreeMap<String, String> {
        let entries = self.0.iter();
        entries
            .filter_map(|(key, entry)| Some((key.clone(), serde_json::to_string(entry).ok()?)))
            .collect()
    }

    /// Remembers a delivery.
    pub fn record(&mut self, delivery: &Delivery) {
        let Notification {
            id, phase, since, ..
        } = &delivery.notification;
        let entry = SentEntry {
            id: id.clone(),
            phase: *phase,
            since: *since,
            ended: delivery.ended.is_some(),
        };
        let key = sent_key(&delivery.receiver.name, &delivery.notification.config);
        self.0.insert(key, entry);
    }

    /// Forgets configurations and receivers that do not exist any more.
    pub fn retain(&mut self, receivers: &[Receiver], configs: &BTreeSet<String>) {
        let known: BTreeSet<_> = receivers
            .iter()
            .flat_map(|receiver| {
                configs
                    .iter()
                    .map(|config| sent_key(&receiver.name, config))
            })
            .collect();
        self.0.retain(|key, _| known.contains(key));
    }
}

/// Names of receivers contain no dots.
fn sent_key(receiver: &str, config: &str) -> String {
    format!("{receiver}.{config}")
}

/// The receivers of notifications about a configuration, by name. If policies define several of the same name, that of
/// the first policy counts: they share the URL.
pub fn receivers(policies: &[Policy], profile: Option<&str>) -> Vec<Receiver> {
    let mut sorted: Vec<_> = policies
        .iter()
        .filter(|policy| profile.is_none_or(|profile| policy.selects(profile)))
        .collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut receivers: BTreeMap<String, Receiver> = BTreeMap::new();
    for receiver in sorted.iter().flat_map(|policy| &policy.spec.notifications) {
        let name = receiver.name.clone();
        receivers.entry(name).or_insert_with(|| receiver.clone());
    }
    receivers.into_values().collect()
}

/// What has to be delivered now.
pub fn due(
    config: &VirtPlatformConfig,
    policies: &[Policy],
    sent: &Sent,
    now: Timestamp,
) -> Vec<Delivery> {
    let receivers = receivers(policies, Some(&config.spec.profile));
    let deliveries = receivers.into_iter().filter_map(|receiver| {
        let last = sent.0.get(&sent_key(&receiver.name, &config.name_any()));
        let current = notification(config, receiver.console_url.as_deref());
        let wanted = current.filter(|current| subscribes(&receiver, current.phase));
        let is_current =
            |last: &SentEntry| wanted.as_ref().is_some_and(|wanted| wanted.id == last.id);
        match (last, &wanted) {
            (Some(last), _) if is_current(last) => None,
            // An alert holds until it is resolved; a message does not.
            (Some(last), _)
                if receiver.format == NotificationFormat::Alertmanager && !last.ended =>
            {
                Some(Delivery {
                    notification: former(config, last),
                    receiver,
                    ended: Some(now),
                })
            }
            (_, Some(wanted)) => Some(Delivery {
                notification: wanted.clone(),
                receiver,
                ended: None,
            }),
            (_, None) => None,
        }
    });
    deliveries.collect()
}

/// Whether a receiver is to be notified of a phase.
fn subscribes(receiver: &Receiver, phase: Phase) -> bool {
    if receiver.phases.is_empty() {
        DEFAULT_PHASES.contains(&phase)
    } else {
        receiver.phases.contains(&phase)
    }
}

/// The notification of the current phase. None for a configuration that only advertises its profile, and while the
/// status is behind the specification: it may describe a plan that is gone.
fn notification(config: &VirtPlatformConfig, console: Option<&str>) -> Option<Notification> {
    let status = config.status.as_ref()?;
    if config.spec.action == Action::Ignore
        || status.observed_generation != config.metadata.generation
    {
        return None;
    }
    let phase = status.phase?;
    let condition = conditions::get(&status.conditions, phase.as_str())?;
    let since = condition.last_transition_time.0;
    let items = status.items.iter().filter(|item| !item.unchanged);
    let lines = items.clone().take(LISTED_ITEMS).map(|item| {
        let impact = item.impact_severity;
        let impact = impact.map_or_else(String::new, |impact| format!(" (impact {impact})"));
        format!("{:?} {}{impact}", item.operation, item.target_ref)
    });
    Some(Notification {
        id: id(config, status.plan_digest.as_deref(), phase, since),
        config: config.name_any(),
        phase,
        since,
        message: condition.message.clone(),
        digest: status.plan_digest.clone(),
        impact: status.impact_severity,
        items: lines.collect(),
        more_items: items.count().saturating_sub(LISTED_ITEMS),
        link: console.map(|console| link(console, &config.name_any())),
    })
}

/// The notification that was delivered last, as far as its end has to name it.
fn former(config: &VirtPlatformConfig, last: &SentEntry) -> Notification {
    Notification {
        id: last.id.clone(),
        config: config.name_any(),
        phase: last.phase,
        since: last.since,
        message: String::new(),
        digest: None,
        impact: None,
        items: Vec::new(),
        more_items: 0,
        link: None,
    }
}

/// The section of the plan on the page of the configuration.
fn link(console: &str, config: &str) -> String {
    format!("{}/governance/{config}#plan", console.trim_end_matches('/'))
}

/// The UID distinguishes an object that was deleted and created again, the time a phase that was entered twice.
fn id(config: &VirtPlatformConfig, digest: Option<&str>, phase: Phase, since: Timestamp) -> String {
    let uid = config.metadata.uid.as_deref().unwrap_or_default();
    let digest = digest.unwrap_or_default();
    let text = format!("{uid}\n{digest}\n{phase}\n{}", since.as_second());
    crate::hash::hex(&Sha256::digest(text))
}
