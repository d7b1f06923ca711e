//! Plans for third-party operators.

use std::collections::BTreeMap;

use api::advisor::{GROUP, PLURAL, Phase, VirtPlatformConfig};
use cluster_view::rivals;
use governance::conditions::HEALTHY;
use governance::retry::describe;
use kube::{Client, ResourceExt as _};

use super::Name;
use super::tree::{Condition, Job, Object, State};
use crate::governance::configs::configs;

/// Reads the state of the job.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let Some(found) = configs(client).try_list().await? else {
        let missing = format!("{PLURAL}.{GROUP}");
        return Ok(Job::off(Name::Governance, &missing, "the operator"));
    };
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for config in &found {
        *phases.entry(phase(config).as_str()).or_default() += 1;
    }
    let phases: Vec<String> = phases
        .iter()
        .map(|(phase, count)| format!("{count} {phase}"))
        .collect();
    let message = match found.len() {
        0 => "no VirtPlatformConfig found".to_owned(),
        1 => format!("1 configuration: {}", phases.join(", ")),
        count => format!("{count} configurations: {}", phases.join(", ")),
    };
    let objects = found.iter().map(object).collect();
    let job = Job::new(Name::Governance).with(objects, message);
    // A user who may not read Deployments and Leases still sees configurations.
    Ok(match rivals::governance(client, true).await {
        Ok(ownership) => job.owned(ownership),
        Err(_) => job,
    })
}

fn phase(config: &VirtPlatformConfig) -> Phase {
    let status = config.status.as_ref();
    status.and_then(|it| it.phase).unwrap_or(Phase::Pending)
}

fn object(config: &VirtPlatformConfig) -> Object {
    let phase = phase(config);
    let conditions = config.status.iter().flat_map(|it| &it.conditions);
    let unhealthy = conditions
        .clone()
        .any(|it| it.type_ == HEALTHY && it.status == "False");
    let state = match phase {
        // In force, and it does not work.
        Phase::Completed | Phase::CompletedWithUpgrade if unhealthy => State::Attention,
        Phase::Completed | Phase::CompletedWithUpgrade | Phase::Ignored => State::Ready,
        Phase::Pending | Phase::Drafting | Phase::InProgress => State::Progressing,
        Phase::PrerequisiteFailed
        | Phase::ReviewRequired
        | Phase::CompletedWithErrors
        | Phase::Failed
        | Phase::Drifted => State::Attention,
    };
    let mut object = Object::new("VirtPlatformConfig", config.name_any(), state);
    object.conditions = conditions
        .map(|condition| {
            // There is one condition per phase; only that of the current phase is informative.
            let other = Phase::ALL
                .iter()
                .any(|it| *it != phase && it.as_str() == condition.type_);
            Condition {
                quiet: other,
                ..Condition::of(condition)
            }
        })
        .collect();
    let own = object.conditions.iter();
    let own = own
        .filter(|it| it.kind == phase.as_str())
        .max_by_key(|it| it.last_transition_time);
    object.since = own.and_then(|it| it.last_transition_time);
    object.message = own.map(|it| it.message.clone());
    let retry = config.status.as_ref().and_then(|it| it.retry.as_ref());
    if let (Some(message), Some(when)) = (&mut object.message, retry.and_then(describe)) {
        message.push(' ');
        message.push_str(&when);
    }
    object.reason = Some(phase.as_str().to_owned());
    for condition in &mut object.conditions {
        condition.quiet |= condition.kind == phase.as_str();
    }
    object
}
