//! Pod conditions, derived from the containers as the kubelet does it.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::scheduler::resources::is_sidecar;

/// The condition types the kubelet owns; others are left alone.
pub(super) const OWN: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// Status, reason and message of a condition.
type ConditionState = (bool, Option<&'static str>, Option<String>);

/// Sets the conditions from the container states; unchanged conditions keep their transition time.
pub(super) fn set(status: &mut PodStatus, pod: &Pod, spec: &PodSpec, now: Timestamp) {
    let sandbox =
        status.pod_ip.is_some() && !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let containers_ready = containers_ready(status, spec);
    let ready = ready(status, spec, &containers_ready);
    let wanted: [(&str, ConditionState); 5] = [
        ("PodReadyToStartContainers", (sandbox, None, None)),
        ("Initialized", initialized(status, spec)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", (true, None, None)),
    ];
    let conditions = status.conditions.get_or_insert_default();
    for (kind, (holds, reason, message)) in wanted {
        let holds = if holds { "True" } else { "False" };
        let old = conditions
            .iter()
            .find(|condition| condition.type_ == kind && condition.status == holds);
        let since = old.and_then(|old| old.last_transition_time.clone());
        let condition = PodCondition {
            type_: kind.to_owned(),
            status: holds.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: Some(since.unwrap_or(Time(now))),
            last_probe_time: None,
            observed_generation: pod.metadata.generation,
        };
        match conditions.iter_mut().find(|known| known.type_ == kind) {
            Some(place) => *place = condition,
            None => conditions.push(condition),
        }
    }
    status.observed_generation = pod.metadata.generation;
}

fn names(list: &[&ContainerStatus]) -> String {
    let names: Vec<&str> = list.iter().map(|own| own.name.as_str()).collect();
    names.join(" ")
}

fn initialized(status: &PodStatus, spec: &PodSpec) -> ConditionState {
    if status.phase.as_deref() == Some("Succeeded") {
        return (true, Some("PodCompleted"), None);
    }
    let inits = spec.init_containers.iter().flatten();
    let open: Vec<&ContainerStatus> = inits
        .zip(status.init_container_statuses.iter().flatten())
        .filter(|(container, own)| {
            if is_sidecar(container) {
                own.started != Some(true)
            } else {
                !own.ready
            }
        })
        .map(|(_, own)| own)
        .collect();
    // Started containers imply that initialization is complete.
    let begun = status
        .container_statuses
        .iter()
        .flatten()
        .any(|own| own.container_id.is_some());
    if open.is_empty() || begun {
        return (true, None, None);
    }
    let text = format!("containers with incomplete status: [{}]", names(&open));
    (false, Some("ContainersNotInitialized"), Some(text))
}

fn containers_ready(status: &PodStatus, spec: &PodSpec) -> ConditionState {
    match status.phase.as_deref() {
        Some("Succeeded") => return (false, Some("PodCompleted"), None),
        Some("Failed") => return (false, Some("PodFailed"), None),
        _ => {}
    }
    let inits = spec.init_containers.iter().flatten();
    let sidecars = inits
        .zip(status.init_container_statuses.iter().flatten())
        .filter(|(container, _)| is_sidecar(container))
        .map(|(_, own)| own);
    let open: Vec<&ContainerStatus> = sidecars
        .chain(status.container_statuses.iter().flatten())
        .filter(|own| !own.ready)
        .collect();
    if open.is_empty() && status.container_statuses.is_some() {
        return (true, None, None);
    }
    let text = format!("containers with unready status: [{}]", names(&open));
    (false, Some("ContainersNotReady"), Some(text))
}

/// A pod is ready when its containers are ready and all its readiness gates are true.
fn ready(status: &PodStatus, spec: &PodSpec, containers: &ConditionState) -> ConditionState {
    if !containers.0 {
        return containers.clone();
    }
    let open: Vec<String> = spec
        .readiness_gates
        .iter()
        .flatten()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            let gate_condition = status
                .conditions
                .iter()
                .flatten()
                .find(|condition| condition.type_ == *name);
            match gate_condition {
                None => Some(format!(
                    "corresponding condition of pod readiness gate {name:?} does not exist."
                )),
                Some(gate_condition) if gate_condition.status != "True" => Some(format!(
                    "the status of pod readiness gate {name:?} is not \"True\", but {}",
                    gate_condition.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    if open.is_empty() {
        return (true, None, None);
    }
    (false, Some("ReadinessGatesNotReady"), Some(open.join(", ")))
}
