//! CPU models of virtual machines.

use api::cpu::NAME;
use cpu_models::groups::groups;
use cpu_models::{Review, RunningVm};
use kube::Client;

use super::Name;
use super::tree::{Job, Object, State};
use crate::cpu::{state, view};

/// Reads the state of the job.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let view = view(client).await?;
    let Some(machines) = view.all_running(client, None).await? else {
        let missing = "virtualmachineinstances.kubevirt.io";
        return Ok(Job::off(Name::Cpu, missing, "KubeVirt"));
    };
    let policy = view.policy.as_ref().map(|policy| {
        let conditions = policy.status.as_ref().map(|it| it.conditions.as_slice());
        Object::of_conditions("CpuModelPolicy", NAME, conditions)
    });
    let reviewed = view.reviewed(machines);
    let objects = reviewed
        .iter()
        .map(|(running, review)| object(running, review));
    let objects = policy.into_iter().chain(objects).collect();
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

fn object(running: &RunningVm, review: &Review) -> Object {
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
