//! The parts of pods and nodes that placement needs. There may be tens of thousands of them, and
//! the page waits: nothing else is parsed.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use kube::ResourceExt as _;
use placement::names::{ARCHITECTURE, OS, VARIANT, WINDOWS_BUILD};
use placement::{Cluster, ImageConsumer, ImageUse, PodSummary, RuntimeClass};
use serde_json::{Value, json};

/// The images of a pod, in the order in which they are pulled.
pub(super) fn images(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let volumes = spec.volumes.iter().flatten();
    let volumes = volumes.filter_map(|it| it.image.as_ref()?.reference.as_deref());
    let containers = spec.init_containers.iter().flatten();
    let containers = containers.chain(&spec.containers);
    let later = spec.ephemeral_containers.iter().flatten();
    let all = volumes
        .chain(containers.filter_map(|it| it.image.as_deref()))
        .chain(later.filter_map(|it| it.image.as_deref()));
    all.filter(|image| !image.is_empty())
}

/// The parts of a pod that a survey needs.
pub(super) fn surveyed(pod: &Pod) -> PodSummary {
    let spec = pod.spec.as_ref();
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let node = spec.and_then(|it| it.node_name.clone());
    let owners = pod.owner_references();
    PodSummary {
        images: spec.map(used).unwrap_or_default(),
        class: spec.and_then(|it| it.runtime_class_name.clone()),
        is_over: matches!(phase, Some("Succeeded" | "Failed")),
        is_everywhere: owners
            .iter()
            .any(|it| matches!(it.kind.as_str(), "DaemonSet" | "Node")),
        // Only unscheduled pods are judged against nodes and need the whole object; scheduled ones
        // are the many.
        object: node.is_none().then(|| json!(pod)),
        node,
    }
}

fn used(spec: &PodSpec) -> Vec<ImageUse> {
    type Named = fn(String) -> ImageConsumer;
    let one = |image: Option<&String>, policy: Option<&String>, by: ImageConsumer| {
        let image = image.filter(|it| !it.is_empty())?.clone();
        let always = policy.is_some_and(|it| it == "Always");
        Some(ImageUse { image, by, always })
    };
    let container = |it: &Container, named: Named| {
        let policy = it.image_pull_policy.as_ref();
        one(it.image.as_ref(), policy, named(it.name.clone()))
    };
    let mut all: Vec<ImageUse> = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        if let Some(image) = &volume.image {
            let by = ImageConsumer::Volume(volume.name.clone());
            all.extend(one(
                image.reference.as_ref(),
                image.pull_policy.as_ref(),
                by,
            ));
        }
    }
    let first = spec.init_containers.iter().flatten();
    all.extend(first.filter_map(|it| container(it, ImageConsumer::InitContainer)));
    let then = spec.containers.iter();
    all.extend(then.filter_map(|it| container(it, ImageConsumer::Container)));
    for later in spec.ephemeral_containers.iter().flatten() {
        let by = ImageConsumer::EphemeralContainer(later.name.clone());
        let policy = later.image_pull_policy.as_ref();
        all.extend(one(later.image.as_ref(), policy, by));
    }
    all
}

/// The nodes, with only the labels that unscheduled pods or RuntimeClasses select on: a node has
/// hundreds.
pub(super) fn cluster<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
    pods: impl IntoIterator<Item = &'a PodSummary>,
    classes: impl IntoIterator<Item = &'a RuntimeClass>,
) -> Cluster {
    let mut named: BTreeSet<String> = [ARCHITECTURE, OS, VARIANT, WINDOWS_BUILD]
        .map(str::to_owned)
        .into();
    for pod in pods.into_iter().filter_map(|it| it.object.as_ref()) {
        if let Some(Value::Object(selector)) = pod.pointer("/spec/nodeSelector") {
            named.extend(selector.keys().cloned());
        }
        if let Some(affinity) = pod.pointer("/spec/affinity/nodeAffinity") {
            keys(affinity, &mut named);
        }
    }
    for class in classes {
        named.extend(class.node_selector.keys().cloned());
    }
    let nodes = nodes.into_iter().map(|node| {
        let all = node.labels();
        placement::Node::with_labels(node, named.iter().filter_map(|key| all.get_key_value(key)))
    });
    nodes.collect()
}

/// Every label key in an affinity.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(key)) = fields.get("key") {
                found.insert(key.clone());
            }
            fields.values().for_each(|it| keys(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| keys(it, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::Shown as _;

    fn pod(spec: &Value) -> Pod {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "n", "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1" },
            ] },
            "spec": spec, "status": { "phase": "Running" },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn trimmed_pod_gives_the_same_survey() {
        let spec = json!({
            "nodeName": "a", "runtimeClassName": "kata",
            "initContainers": [{ "name": "i", "image": "first" }],
            "containers": [
                { "name": "c", "image": "then", "imagePullPolicy": "Always" }, { "name": "none" },
            ],
            "ephemeralContainers": [{ "name": "e", "image": "later" }],
            "volumes": [{ "name": "v", "image": { "reference": "model" } }],
        });
        for spec in [
            spec,
            json!({ "containers": [{ "name": "c", "image": "x" }] }),
        ] {
            let pod = pod(&spec);
            let read = surveyed(&pod);
            assert_eq!(read, PodSummary::read(&json!(pod)));
            let names: Vec<&str> = read.images.iter().map(|it| it.image.as_str()).collect();
            let spec = pod.spec.as_ref().unwrap();
            assert_eq!(images(spec).collect::<Vec<_>>(), names);
        }
    }

    /// The pages about CPU models count the nodes that could take a launcher.
    #[test]
    fn trimmed_launcher_demands_the_same() {
        let mut launcher = pod(&json!({
            "containers": [{
                "name": "compute", "resources": { "requests": { "hugepages-2Mi": "1Gi" } },
                "env": [{ "name": "secret", "value": "s" }],
            }],
            "initContainers": [
                { "name": "s", "restartPolicy": "Always", "resources": { "requests": { "a/b": "1" } } },
            ],
            "overhead": { "memory": "1Gi" },
        }));
        launcher
            .labels_mut()
            .insert("kubevirt.io/created-by".to_owned(), "1".to_owned());
        let instance = api::kubevirt::VirtualMachineInstance::default();
        let demand = |pod: &Pod| cpu_models::Machine::of_launcher(&instance, pod).demand;
        let before = demand(&launcher);
        launcher.trim();
        assert_eq!(demand(&launcher), before);
        assert!(!json!(launcher).to_string().contains("secret"));
    }

    #[test]
    fn only_selected_node_labels_are_kept() {
        let waiting = pod(&json!({
            "nodeSelector": { "zone": "a" },
            "containers": [],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "gpu", "operator": "Exists" }] }],
            } } },
        }));
        let node = json!({ "metadata": { "name": "n", "labels": {
            "zone": "a", "gpu": "", "feature": "true", OS: "linux", ARCHITECTURE: "arm64",
        } } });
        let node: Node = serde_json::from_value(node).unwrap();
        let cluster = cluster([&node], [&surveyed(&waiting)], []);
        let found = format!("{:?}", cluster.node("n").unwrap());
        for (label, kept) in [("zone", true), ("gpu", true), ("feature", false)] {
            assert_eq!(found.contains(label), kept, "{label}: {found}");
        }
        assert_eq!(cluster.node("n").unwrap().place.architecture, "arm64");
    }
}
