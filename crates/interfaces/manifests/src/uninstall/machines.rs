//! Virtual machines that leave the choice of their CPU model to Medley.

use std::collections::BTreeMap;

use api::kubevirt::{VirtualMachine, VirtualMachineInstance, phases};
use cpu_models::instance::{is_ours, recorded};
use cpu_models::names::{BEST_MATCH_MODEL, HOST_MODEL, HOST_PASSTHROUGH};

use super::{
    Change, InstalledState, Kept, ObjectRef, Phase, Step, UninstallOptions, UninstallPlan,
    UninstallRefusal, listed, step,
};

/// KubeVirt accepts no `host-model` there.
const ARM64: &str = "arm64";

type Instances<'a> = BTreeMap<(Option<&'a str>, Option<&'a str>), &'a VirtualMachineInstance>;

/// Adds the steps for virtual machines, or why there are none.
pub(super) fn plan(
    state: &InstalledState,
    options: UninstallOptions,
    plan: &mut UninstallPlan,
    steps: &mut Vec<Step>,
) {
    let running = state.instances.iter().filter(|it| !is_over(it));
    let instances: Instances<'_> = running.map(|it| (key(&it.metadata), it)).collect();
    let (asking, others): (Vec<_>, Vec<_>) = state
        .machines
        .iter()
        .partition(|machine| machine.spec.template.spec.model() == Some(BEST_MATCH_MODEL));
    let inheriting = others.into_iter().filter(|machine| {
        // One with a model of its own, set since its instance started, needs no other.
        if machine
            .spec
            .template
            .spec
            .model()
            .is_some_and(|it| !it.is_empty())
        {
            return false;
        }
        let instance = instances.get(&key(&machine.metadata));
        instance.is_some_and(|it| is_ours(it))
    });
    let names = |machines: &[&VirtualMachine]| -> Vec<String> {
        machines.iter().map(|it| object(it).path()).collect()
    };
    let inheriting: Vec<&VirtualMachine> = inheriting.collect();
    if options.keep_cpu_models {
        let count = asking.len() + inheriting.len();
        if count > 0 {
            let all = [names(&asking), names(&inheriting)].concat();
            plan.kept.push(Kept {
                objects: format!("{count} VirtualMachines with best-match-model"),
                reason: format!(
                    "asked for with --keep-cpu-models; they do not start without Medley: {}",
                    listed(&all)
                ),
            });
        }
        return;
    }
    for kubevirt in &state.defaults {
        plan.refusals
            .push(UninstallRefusal::DefaultModel(kubevirt.to_string()));
    }
    // With such a default, it is the reason for all of them.
    if !inheriting.is_empty() && state.defaults.is_empty() {
        plan.refusals
            .push(UninstallRefusal::InheritedModels(listed(&names(
                &inheriting,
            ))));
    }
    if !options.fix_cpu_models && !asking.is_empty() {
        plan.refusals.push(UninstallRefusal::BestMatchModels {
            count: asking.len(),
            names: listed(&names(&asking)),
        });
        return;
    }
    for machine in asking {
        let (model, reason) = fixed(machine, &instances);
        let change = Change::SetCpuModel(model);
        steps.push(step(
            Phase::VirtualMachines,
            change,
            object(machine),
            reason,
        ));
    }
}

/// The model to set: that of the running instance, so that a restart changes nothing for the guest.
fn fixed(machine: &VirtualMachine, instances: &Instances<'_>) -> (String, &'static str) {
    let instance = instances.get(&key(&machine.metadata));
    let model = instance.and_then(|it| recorded(it).or_else(|| it.spec.model()));
    if let Some(model) = model.filter(|it| *it != BEST_MATCH_MODEL) {
        return (model.to_owned(), "the model that it runs with");
    }
    let reason = "it does not run, and KubeVirt uses this model where none is named";
    let architecture = machine.spec.template.spec.architecture.as_deref();
    if architecture == Some(ARM64) {
        (HOST_PASSTHROUGH.to_owned(), reason)
    } else {
        (HOST_MODEL.to_owned(), reason)
    }
}

fn is_over(instance: &VirtualMachineInstance) -> bool {
    [phases::SUCCEEDED, phases::FAILED].contains(&instance.phase())
}

fn object(machine: &VirtualMachine) -> ObjectRef {
    ObjectRef::of_meta("kubevirt.io/v1", "VirtualMachine", &machine.metadata)
}

fn key(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> (Option<&str>, Option<&str>) {
    (metadata.namespace.as_deref(), metadata.name.as_deref())
}
