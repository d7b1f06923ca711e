//! CPU models of virtual machines.

use api::cpu::{CpuModelPolicy, NAME};
use cpu_models::groups::groups;
use cpu_models::{Review, Running, Survey};
use kube::{Api, Client};

use super::Name;
use super::tree::{Job, Object, State};
use crate::cpu::{CpuView, state};
use crate::governance::configs::api_error;

/// Reads the state of the job.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let view = CpuView::read(client).await?;
    let Some(machines) = view.try_all_running(client, None).await? else {
        let missing = "virtualmachineinstances.kubevirt.io";
        return Ok(Job::off(Name::Cpu, missing, "KubeVirt"));
    };
    let policies: Api<CpuModelPolicy> = Api::all(client.clone());
    let policy = match policies.get_opt(NAME).await {
        Ok(policy) => policy,
        Err(error) => {
            return Err(api_error(error).context(format!("reading CpuModelPolicy {NAME}")));
        }
    };
    let mut objects: Vec<Object> = policy
        .iter()
        .map(|it| {
            let status = it.status.as_ref();
            let conditions = status.map(|it| it.conditions.as_slice());
            Object::of_conditions("CpuModelPolicy", NAME, conditions.unwrap_or_default())
        })
        .collect();
    let mut survey = Survey::new(&view.index, &view.settings.policy);
    let reviewed: Vec<(Running, Review)> = machines
        .into_iter()
        .map(|running| {
            let review = survey.review(&running);
            (running, review)
        })
        .collect();
    objects.extend(
        reviewed
            .iter()
            .map(|(running, review)| object(running, review)),
    );
    let count = |is: fn(&Review) -> bool| reviewed.iter().filter(|(_, it)| is(it)).count();
    let message = format!(
        "{} nodes in {} classes; {} VMs: {} cannot migrate, {} would gain from a restart",
        view.index.len(),
        groups(&view.index, &view.settings.policy).len(),
        reviewed.len(),
        count(|it| it.stranded.is_some()),
        count(|it| it.stale.is_some()),
    );
    Ok(Job::new(Name::Cpu).with(objects, message))
}

fn object(running: &Running, review: &Review) -> Object {
    // A VM that would gain from a restart is still ready.
    let how = match (&review.model, review.stranded) {
        (_, Some(_)) => State::Attention,
        (None, None) => State::Progressing,
        (Some(_), None) => State::Ready,
    };
    let machine = &running.machine;
    let mut object = Object::new("VirtualMachineInstance", &machine.name, how);
    object.namespace = Some(machine.namespace.clone());
    object.reason = Some(state(review));
    object.message = review.model.as_ref().map(|model| {
        format!(
            "{model} on {}, {} other nodes could run it",
            running.node, review.targets
        )
    });
    object
}
