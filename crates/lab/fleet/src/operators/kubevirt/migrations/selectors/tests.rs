use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Value, json};

use super::{keep_apart, lacking, target_selector};
use crate::operators::kubevirt::fixtures::{launcher, object};
use crate::operators::kubevirt::launcher::Launcher;

type Labels = BTreeMap<String, String>;

fn texts(entries: &[(&str, &str)]) -> Labels {
    let entries = entries.iter();
    entries
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn source(selector: &[(&str, &str)]) -> Launcher {
    Launcher {
        node_selector: texts(selector),
        ..launcher("source", "a")
    }
}

fn instance(model: &str) -> DynamicObject {
    object(json!({
        "metadata": { "name": "vm", "uid": "i" },
        "spec": { "domain": { "cpu": { "model": model } } },
    }))
}

fn node() -> Labels {
    texts(&[
        ("cpu-vendor.node.kubevirt.io/Intel", "true"),
        ("cpu-model.node.kubevirt.io/Haswell", "true"),
        ("host-model-cpu.node.kubevirt.io/Skylake", "true"),
        ("host-model-required-features.node.kubevirt.io/vmx", "true"),
        ("cpu-feature.node.kubevirt.io/aes", "true"),
    ])
}

fn selector(
    added: &Value,
    model: &str,
    pod: &Value,
    from: &Launcher,
    node: &Labels,
) -> Result<Labels, String> {
    let migration = object(json!({
        "metadata": { "name": "move" },
        "spec": { "vmiName": "vm", "addedNodeSelector": added },
    }));
    let pod = json!({ "spec": { "nodeSelector": pod } });
    target_selector(&migration, &instance(model), &pod, from, node)
}

#[test]
fn first_migration_requires_the_source_nodes_labels() {
    let pod = json!({ "kubevirt.io/schedulable": "true" });
    let found = selector(&json!({}), "host-model", &pod, &source(&[]), &node());
    let expected = texts(&[
        ("cpu-feature.node.kubevirt.io/vmx", "true"),
        ("cpu-model-migration.node.kubevirt.io/Skylake", "true"),
        ("kubevirt.io/schedulable", "true"),
    ]);
    assert_eq!(found, Ok(expected));
}

#[test]
fn later_migrations_carry_the_requirements_on() {
    let first = [
        ("cpu-feature.node.kubevirt.io/vmx", "true"),
        ("cpu-model-migration.node.kubevirt.io/Skylake", "true"),
        ("kubevirt.io/schedulable", "true"),
    ];
    let newer = texts(&[
        ("cpu-vendor.node.kubevirt.io/Intel", "true"),
        ("host-model-cpu.node.kubevirt.io/SapphireRapids", "true"),
        (
            "host-model-required-features.node.kubevirt.io/amx-tile",
            "true",
        ),
    ]);
    let pod = json!({ "kubevirt.io/schedulable": "true" });
    let found = selector(&json!({}), "host-model", &pod, &source(&first), &newer);
    assert_eq!(found, Ok(texts(&first)));
}

#[test]
fn named_model_requires_its_label_alone() {
    let labels = [("cpu-model.node.kubevirt.io/Haswell", "true")];
    let found = selector(
        &json!({}),
        "Haswell",
        &json!(texts(&labels)),
        &source(&[]),
        &node(),
    );
    assert_eq!(found, Ok(texts(&labels)));
}

#[test]
fn instance_selector_overrides_the_migrations() {
    let added = json!({ "zone": "b", "disk": "fast" });
    let found = selector(
        &added,
        "Haswell",
        &json!({ "zone": "a" }),
        &source(&[]),
        &Labels::new(),
    );
    assert_eq!(found, Ok(texts(&[("disk", "fast"), ("zone", "a")])));
}

#[test]
fn source_without_host_model_label_blocks_migration() {
    let found = selector(
        &json!({}),
        "host-model",
        &json!({}),
        &source(&[]),
        &Labels::new(),
    );
    let why = found.expect_err("no model");
    assert_eq!(
        why,
        "unable to locate host cpu model, does not contain label \"host-model-cpu.node.kubevirt.io/\" with information"
    );
}

#[test]
fn target_avoids_the_source_node() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut plain = json!({ "spec": {} });
    keep_apart(&mut plain, &instance("host-model"));
    let term = json!({
        "labelSelector": { "matchLabels": { "kubevirt.io/created-by": "i" } },
        "topologyKey": "kubernetes.io/hostname",
    });
    assert_eq!(
        plain["spec"]["affinity"]["podAntiAffinity"][required],
        json!([term])
    );
    let own = json!({ "topologyKey": "zone" });
    let mut more = json!({ "spec": { "affinity": { "podAntiAffinity": { required: [own] } } } });
    keep_apart(&mut more, &instance("host-model"));
    assert_eq!(
        more["spec"]["affinity"]["podAntiAffinity"][required],
        json!([own, term])
    );
}

#[test]
fn unsatisfiable_requirements_are_listed() {
    let target = source(&[
        ("cpu-model-migration.node.kubevirt.io/Skylake", "true"),
        ("cpu-feature.node.kubevirt.io/vmx", "true"),
        // Not about the CPU.
        ("zone", "a"),
    ]);
    let node = |labels: &[(&str, &str)]| Node {
        metadata: ObjectMeta {
            labels: Some(texts(labels)),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    let half = node(&[("cpu-model-migration.node.kubevirt.io/Skylake", "true")]);
    let all = node(&[
        ("cpu-model-migration.node.kubevirt.io/Skylake", "true"),
        ("cpu-feature.node.kubevirt.io/vmx", "true"),
    ]);
    let expected = "map[cpu-feature.node.kubevirt.io/vmx:true cpu-model-migration.node.kubevirt.io/Skylake:true]";
    assert_eq!(
        lacking(&target, [&half].into_iter()).as_deref(),
        Some(expected)
    );
    assert_eq!(lacking(&target, [&half, &all].into_iter()), None);
}
