//! A large cluster: twenty node classes with a hundred CPU models each, and virtual machines with a
//! thousand different demands.

use std::collections::BTreeMap;
use std::sync::Arc;

use cpu_models::demand::{Demand, DemandInputs};
use cpu_models::names::{
    FEATURE_LABEL, HOST_MODEL_FEATURE_LABEL, HOST_MODEL_LABEL, MIGRATION_LABEL, MODEL_LABEL,
    SCHEDULABLE_LABEL, TRUE, VENDOR_LABEL,
};
use cpu_models::{Index, Machine, NodeInputs, Policy, Requested, RunningVm, Survey};
use serde_json::{Value, json};

use super::scan::Wish;

/// CPU models of a node.
const MODELS: usize = 100;
/// CPU features of a node.
const FEATURES: usize = 60;
/// Node classes per vendor.
const MAKES: usize = 10;
/// Number of different demands.
const DEMANDS: usize = 1_000;

const INTEL: [&str; 14] = [
    "Penryn",
    "Nehalem",
    "Westmere",
    "SandyBridge",
    "IvyBridge",
    "Haswell",
    "Broadwell",
    "Skylake-Client",
    "Skylake-Server",
    "Cascadelake-Server",
    "Cooperlake",
    "Icelake-Server",
    "SapphireRapids",
    "GraniteRapids",
];
const AMD: [&str; 6] = [
    "Opteron_G3",
    "EPYC",
    "EPYC-Rome",
    "EPYC-Milan",
    "EPYC-Genoa",
    "EPYC-Turin",
];

/// The nodes and virtual machines.
pub(super) struct Cluster {
    pub(super) nodes: Vec<NodeInputs>,
    pub(super) machines: Vec<RunningVm>,
    /// The demand of each virtual machine, as in its spec.
    pub(super) wishes: Vec<Wish>,
}

impl Cluster {
    pub(super) fn new(nodes: usize, machines: usize) -> Self {
        let nodes: Vec<NodeInputs> = (0..nodes).map(node).collect();
        let demands: Vec<(Wish, Arc<Demand>)> = (0..DEMANDS)
            .map(|number| {
                let wish = wish(number);
                let demand = Arc::new(demand(&wish));
                (wish, demand)
            })
            .collect();
        let index = Index::new(nodes.iter().cloned());
        let policy = Policy::default();
        let mut survey = Survey::new(&index, &policy);
        let (mut running, mut wishes) = (Vec::new(), Vec::new());
        for number in 0..machines {
            // Strides without common factors spread virtual machines over nodes and demands.
            let (wish, demand) = &demands[number * 7 % DEMANDS];
            let node = &nodes[number * 7919 % nodes.len()].name;
            let machine = Machine {
                namespace: format!("team{}", number % 50),
                name: format!("vm{number}"),
                requested: Requested::BestMatch,
                demand: demand.clone(),
            };
            let chosen = survey.choose(&machine, node);
            running.push(RunningVm {
                recorded: Some(chosen.model().to_owned()),
                machine,
                node: node.clone(),
                carried: BTreeMap::new(),
            });
            wishes.push(wish.clone());
        }
        Self {
            machines: running,
            wishes,
            nodes,
        }
    }
}

/// A node of the class given by its number.
fn node(number: usize) -> NodeInputs {
    let (make, zone) = (number % (2 * MAKES), number / 7 % 10);
    let intel = make < MAKES;
    let own: &[&str] = if intel { &INTEL } else { &AMD };
    let foreign: &[&str] = if intel { &AMD } else { &INTEL };
    // Later classes support more models of their own vendor; the models of the other vendor count
    // as usable, too.
    let step = make % MAKES + 1;
    let known = (own.len() * step).div_ceil(MAKES);
    let mut labels = BTreeMap::new();
    let mut put = |key: String, value: &str| labels.insert(key, value.to_owned());
    let models = versions(&own[..known]).chain(versions(foreign));
    for model in models.take(MODELS) {
        put(format!("{MODEL_LABEL}{model}"), TRUE);
        put(format!("{MIGRATION_LABEL}{model}"), TRUE);
    }
    for feature in 0..FEATURES / 2 + step * 3 {
        put(format!("{FEATURE_LABEL}f{feature}"), TRUE);
    }
    for feature in 0..20 {
        put(format!("{HOST_MODEL_FEATURE_LABEL}f{feature}"), TRUE);
    }
    put(format!("{HOST_MODEL_LABEL}{}", own[known - 1]), TRUE);
    put(
        format!("{VENDOR_LABEL}{}", if intel { "Intel" } else { "AMD" }),
        TRUE,
    );
    put(SCHEDULABLE_LABEL.to_owned(), TRUE);
    put(
        "topology.kubernetes.io/zone".to_owned(),
        &format!("z{zone}"),
    );
    put("rack".to_owned(), &format!("{}", number / 50));
    let name = format!("node{number}");
    put("kubernetes.io/hostname".to_owned(), &name);
    let taints = if number.is_multiple_of(50) {
        json!([{ "key": "gpu", "effect": "NoSchedule" }])
    } else {
        json!([])
    };
    NodeInputs {
        name,
        labels,
        unschedulable: number.is_multiple_of(97),
        ready: !number.is_multiple_of(89),
        taints: serde_json::from_value(taints).unwrap_or_default(),
        architecture: Some("amd64".to_owned()),
        allocatable: BTreeMap::new(),
    }
}

/// Model families with all versions, newest first.
fn versions<'a>(families: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    families.iter().rev().flat_map(|family| {
        let versions = (1..=7).map(move |version| format!("{family}-v{version}"));
        std::iter::once((*family).to_owned()).chain(versions)
    })
}

/// A demand: labels, alternatives, numbers, features, tolerations.
fn wish(number: usize) -> Wish {
    let zone = format!("z{}", number % 10);
    let mut spec = json!({ "nodeSelector": { SCHEDULABLE_LABEL: TRUE } });
    if number.is_multiple_of(3) {
        spec["nodeSelector"]["topology.kubernetes.io/zone"] = json!(zone);
    }
    let expression = |key: &str, operator: &str, values: Value| json!({ "key": key, "operator": operator, "values": values });
    let terms = match number % 5 {
        0 => None,
        1 => Some(json!([{ "matchExpressions": [
            expression("topology.kubernetes.io/zone", "NotIn", json!([zone])),
            expression("rack", "Gt", json!([(number / 10).to_string()])),
        ] }])),
        _ => Some(json!([
            { "matchExpressions": [expression("rack", "Lt", json!([(100 + number / 10).to_string()]))] },
            { "matchExpressions": [expression("topology.kubernetes.io/zone", "In", json!([zone, "z0"]))] },
        ])),
    };
    if let Some(terms) = terms {
        spec["affinity"] = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } });
    }
    let features = (0..number % 4).map(|feature| format!("f{}", feature * 9 + number % 7));
    Wish {
        spec,
        tolerations: vec![
            json!({ "key": "gpu", "operator": "Exists" });
            usize::from(number.is_multiple_of(2))
        ],
        features: features.collect(),
        forbidden: Vec::new(),
        architecture: Some("amd64".to_owned()),
        devices: 0,
    }
}

fn demand(wish: &Wish) -> Demand {
    let labels = serde_json::from_value(wish.spec["nodeSelector"].clone()).unwrap_or_default();
    let required = wish
        .spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    let required = required.map(|it| serde_json::from_value(it.clone()).unwrap_or_default());
    let tolerations: Vec<_> =
        serde_json::from_value(Value::from(wish.tolerations.clone())).unwrap_or_default();
    Demand::new(&DemandInputs {
        node_selector: Some(&labels),
        required: required.as_ref(),
        tolerations: &tolerations,
        required_features: &wish.features,
        forbidden_features: &wish.forbidden,
        architecture: wish.architecture.as_deref(),
        machine_type: None,
        dedicated_cpus: false,
        resources: BTreeMap::new(),
    })
}
