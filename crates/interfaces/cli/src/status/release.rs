//! Migration of the cluster to a release.

use ::release_migration::report::{Assessment, OperatorReport, Report};
use cluster_view::rivals;
use controllers::release::COMPONENT;
use kube::Client;

use super::Name;
use super::tree::{Condition, Job, Object, State};
use crate::release::{Read, try_version};

/// Reads the state of the job. The versions that a release expects of its operators are not known
/// here; `medley release status --release` checks them.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let Some(version) = try_version(client).await? else {
        let missing = "clusterversions.config.openshift.io";
        return Ok(Job::off(Name::Release, missing, "OpenShift"));
    };
    let read = Read::of(client, version, None).await?;
    let report = read.report();
    let control = &report.control_plane;
    let mut version = Object::new("ClusterVersion", "version", state(&report));
    version.reason = Some(control.assessment.word().to_owned());
    version.since = control.completed.or(control.started);
    version.message = Some(control.target.text.clone());
    let conditions = read.version.status.iter().flat_map(|it| &it.conditions);
    version.conditions = conditions.map(Condition::of_openshift).collect();
    let mut objects = vec![version];
    objects.extend(control.operators.iter().map(operator));
    let message = format!(
        "{}: {} of {} operators have completed {}",
        control.assessment.word(),
        control.completion.updated,
        control.completion.total,
        control.target.version
    );
    let job = Job::new(Name::Release).with(objects, message);
    // Observing is the default: without another operator there is nothing to say about it.
    Ok(
        match rivals::release(client, Some(&read.version), COMPONENT).await {
            Ok(ownership) if ownership.owner.is_some() => job.owned(ownership),
            _ => job,
        },
    )
}

fn state(report: &Report) -> State {
    match report.control_plane.assessment {
        Assessment::Completed => State::Ready,
        Assessment::Progressing | Assessment::Slow => State::Progressing,
        Assessment::Stalled | Assessment::Early => State::Attention,
    }
}

fn operator(operator: &OperatorReport) -> Object {
    let (state, word) = match operator {
        it if !it.available => (State::Attention, "Unavailable"),
        it if it.degraded => (State::Attention, "Degraded"),
        it if it.updated => (State::Ready, "Updated"),
        it if it.progressing => (State::Progressing, "Updating"),
        _ => (State::Progressing, "Waiting"),
    };
    let mut object = Object::new("ClusterOperator", &operator.name, state);
    object.reason = Some(word.to_owned());
    object.since = operator.since;
    object.message = Some(operator.message.clone()).filter(|it| !it.is_empty());
    object
}
