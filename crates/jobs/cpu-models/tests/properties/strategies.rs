//! Random clusters, VMs and policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use cpu_models::demand::{Demand, DemandInputs};
use cpu_models::names::{
    FEATURE_LABEL, HOST_MODEL_FEATURE_LABEL, HOST_MODEL_LABEL, MIGRATION_LABEL, MODEL_LABEL,
    SCHEDULABLE_LABEL, VENDOR_LABEL,
};
use cpu_models::policy::Obsolete;
use cpu_models::{Machine, NodeInputs, Policy, Requested};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::scan::{DEVICE, Wish};

const MODELS: [&str; 12] = [
    "EPYC",
    "EPYC-IBPB",
    "EPYC-Rome",
    "EPYC-Milan",
    "Dhyana",
    "Penryn",
    "Haswell",
    "Haswell-noTSX",
    "Skylake-Server-IBRS",
    "Opteron_G1",
    "qemu64",
    "Novel",
];

/// A change of the cluster.
#[derive(Debug, Clone)]
pub(crate) enum NodeChange {
    /// A node is added or updated.
    Put(Box<NodeInputs>),
    /// A node is removed.
    Remove(String),
}

pub(crate) fn node_changes() -> impl Strategy<Value = Vec<NodeChange>> {
    let change = prop_oneof![
        3 => node().prop_map(|node| NodeChange::Put(Box::new(node))),
        1 => name().prop_map(NodeChange::Remove),
    ];
    prop::collection::vec(change, 0..40)
}

/// Nodes with distinct names.
pub(crate) fn nodes() -> impl Strategy<Value = Vec<NodeInputs>> {
    prop::collection::vec(node(), 1..14).prop_map(|nodes| {
        let by_name: BTreeMap<String, NodeInputs> = nodes
            .into_iter()
            .map(|node| (node.name.clone(), node))
            .collect();
        by_name.into_values().collect()
    })
}

fn name() -> impl Strategy<Value = String> {
    (0..10_u8).prop_map(|number| format!("n{number}"))
}

pub(crate) fn node() -> impl Strategy<Value = NodeInputs> {
    let vendors = subsequence(vec!["AMD", "Intel"], 0..=2);
    let vendors = prop_oneof![4 => select(vec![vec!["AMD"], vec!["Intel"]]), 1 => vendors];
    let rarely = || prop::bool::weighted(0.15);
    let labels = (
        vendors,
        subsequence(MODELS.to_vec(), 0..=12),
        subsequence(vec!["aes", "avx2"], 0..=2),
        prop::option::of(select(vec!["a", "b", "7", "12"])),
        prop::option::of(select(MODELS.to_vec())),
        rarely(),
        rarely(),
    );
    let taints = select(vec![
        json!([]),
        json!([]),
        json!([]),
        json!([{ "key": "gpu", "value": "x", "effect": "NoSchedule" }]),
        json!([{ "key": "gpu", "effect": "PreferNoSchedule" }]),
        json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" }]),
        json!([{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }]),
    ]);
    let architecture =
        prop_oneof![4 => Just(Some("amd64")), 1 => Just(None), 1 => Just(Some("s390x"))];
    // None at all, or a number of devices.
    let devices = prop_oneof![2 => Just(None), 1 => (0..3_i64).prop_map(Some)];
    (
        name(),
        labels,
        rarely(),
        rarely(),
        taints,
        architecture,
        devices,
    )
        .prop_map(
            |(name, labels, unschedulable, unready, taints, architecture, devices)| {
                let (vendors, models, features, zone, host, untrue, dead) = labels;
                let mut all = BTreeMap::new();
                let mut put = |key: String, value: &str| all.insert(key, value.to_owned());
                put(
                    SCHEDULABLE_LABEL.to_owned(),
                    if dead { "false" } else { "true" },
                );
                for vendor in vendors {
                    put(format!("{VENDOR_LABEL}{vendor}"), "true");
                }
                for (number, model) in models.iter().enumerate() {
                    let value = if untrue && number == 0 {
                        "false"
                    } else {
                        "true"
                    };
                    put(format!("{MODEL_LABEL}{model}"), value);
                    put(format!("{MIGRATION_LABEL}{model}"), "true");
                }
                for feature in features {
                    put(format!("{FEATURE_LABEL}{feature}"), "true");
                    put(format!("{HOST_MODEL_FEATURE_LABEL}{feature}"), "true");
                }
                if let Some(zone) = zone {
                    put("zone".to_owned(), zone);
                }
                if let Some(host) = host {
                    put(format!("{HOST_MODEL_LABEL}{host}"), "true");
                }
                NodeInputs {
                    name,
                    labels: all,
                    unschedulable,
                    ready: !unready,
                    taints: serde_json::from_value(taints).unwrap_or_default(),
                    architecture: architecture.map(str::to_owned),
                    allocatable: devices
                        .map(|amount| BTreeMap::from([(DEVICE.to_owned(), amount)]))
                        .unwrap_or_default(),
                }
            },
        )
}

fn expression() -> impl Strategy<Value = Value> {
    let values = || subsequence(vec!["a", "b", "7"], 0..=3);
    let operators = vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"];
    let labels = (select(operators), values()).prop_map(|(operator, values)| {
        json!({ "matchExpressions": [{ "key": "zone", "operator": operator, "values": values }] })
    });
    let fields = (select(vec!["In", "NotIn"]), name()).prop_map(|(operator, name)| {
        json!({ "matchFields": [{ "key": "metadata.name", "operator": operator, "values": [name] }] })
    });
    prop_oneof![6 => labels, 2 => fields, 1 => Just(json!({}))]
}

pub(crate) fn wish() -> impl Strategy<Value = Wish> {
    let selector = prop::option::weighted(0.2, select(vec!["a", "b"]));
    let terms = prop::option::weighted(0.5, prop::collection::vec(expression(), 0..4));
    let tolerations = select(vec![
        vec![],
        vec![],
        vec![json!({ "key": "gpu", "operator": "Exists" })],
        vec![json!({ "operator": "Exists" })],
    ]);
    let features = || subsequence(vec!["aes".to_owned(), "avx2".to_owned()], 0..=1);
    let forbidden = prop_oneof![5 => Just(vec![]), 1 => features()];
    let architecture = select(vec![None, Some("amd64".to_owned())]);
    let devices = prop_oneof![3 => Just(0), 1 => 1..3_i64];
    (selector, terms, tolerations, features(), forbidden, architecture, devices).prop_map(
        |(zone, terms, tolerations, features, forbidden, architecture, devices)| {
            let mut spec = json!({});
            if let Some(zone) = zone {
                spec["nodeSelector"] = json!({ "zone": zone });
            }
            if let Some(terms) = terms {
                spec["affinity"] = json!({ "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } });
            }
            Wish { spec, tolerations, features, forbidden, architecture, devices }
        },
    )
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let thresholds = vec![
        json!({}),
        json!({}),
        json!({ "support": 1 }),
        json!({ "support": "50%" }),
        json!({ "support": "100%", "minimum": 1 }),
    ];
    let counted = || select(vec!["Ignore", "Ignore", "Count"]);
    let bias = select(vec!["Newest", "Widest"]);
    let foreign = select(vec!["Exclude", "LastResort"]);
    let listed = prop::bool::ANY;
    let scope = (counted(), counted(), counted());
    let year = select(vec![2007, 2014]);
    (select(thresholds), scope, bias, foreign, listed, year).prop_map(
        |(threshold, (unschedulable, not_ready, tainted), bias, foreign, listed, year)| {
            let spec = json!({
                "threshold": threshold, "bias": bias, "foreignVendors": foreign,
                "minimalLaunchYear": year,
                "nodes": { "unschedulable": unschedulable, "notReady": not_ready, "tainted": tainted },
                "models": [{ "name": "Novel", "launchYear": 2030 }],
            });
            let (policy, _) = Policy::read(&serde_json::from_value(spec).unwrap_or_default());
            let models = vec!["Haswell".to_owned()];
            policy.with_obsolete(Obsolete::from_configuration(listed.then_some(&models)))
        },
    )
}

fn demand_of(wish: &Wish) -> Demand {
    let selector = wish
        .spec
        .get("nodeSelector")
        .map(|labels| serde_json::from_value(labels.clone()).unwrap_or_default());
    let required = wish
        .spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
        .map(|required| serde_json::from_value(required.clone()).unwrap_or_default());
    let tolerations = Value::from(wish.tolerations.clone());
    let tolerations: Vec<_> = serde_json::from_value(tolerations).unwrap_or_default();
    Demand::new(&DemandInputs {
        node_selector: selector.as_ref(),
        required: required.as_ref(),
        tolerations: &tolerations,
        required_features: &wish.features,
        forbidden_features: &wish.forbidden,
        architecture: wish.architecture.as_deref(),
        machine_type: None,
        dedicated_cpus: false,
        resources: BTreeMap::from([(DEVICE.to_owned(), wish.devices)]),
    })
}

pub(crate) fn machine_of(wish: &Wish) -> Machine {
    Machine {
        namespace: "default".to_owned(),
        name: "vm".to_owned(),
        requested: Requested::BestMatch,
        demand: Arc::new(demand_of(wish)),
    }
}
