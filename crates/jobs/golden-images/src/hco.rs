//! From a HyperConverged to an SSP: which images are wanted, and for which architectures.

pub mod admission;
mod filter;
mod merge;
pub mod metrics;
mod switch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::hco::{HyperConvergedStatus, Images, NodeInfo, TemplateWithStatus};
use api::ssp::{Cluster, DataImportCronTemplate, SSP};
use jiff::Timestamp;
use machinery::cron::Schedule;
use serde_json::{Value, json};

pub use filter::{ARCHITECTURES_MATCH, DEPLOYED};
pub use metrics::Sample;
pub use switch::{Said, Switch};

use crate::architectures::Architectures;
use crate::conditions;
use crate::policy::Policy;

/// The condition of a HyperConverged that says whether its images are as it asks for.
pub const ACCEPTED: &str = "GoldenImagesAccepted";

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The HyperConverged.
    pub images: &'a Images,
    /// Built-in templates.
    pub built_in: &'a [DataImportCronTemplate],
    /// The nodes.
    pub architectures: &'a Architectures,
    /// How images are kept.
    pub policy: &'a Policy,
    /// The architectures that images really have, by the name of their template.
    pub discovered: &'a BTreeMap<String, BTreeSet<String>>,
    /// Whether there can be an SSP.
    pub ssp_installed: bool,
    /// The SSP as it is.
    pub ssp: Option<&'a SSP>,
    /// Something random: it only matters the first time.
    pub seed: u64,
    /// Now.
    pub now: Timestamp,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether there are images for every architecture, and who says so.
    pub switch: Switch,
    /// What the status of the HyperConverged has to be.
    pub status: HyperConvergedStatus,
    /// Whether it is not so.
    pub status_changed: bool,
    /// What has to be applied to the SSP; nothing if it is so.
    pub ssp: Option<Value>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// All samples; those that are not here are no more.
    pub samples: Vec<Sample>,
}

/// Something that is wrong with what was asked for. Everything else goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A template has no name.
    #[error("a DataImportCronTemplate has no name; it is ignored")]
    NoName,
    /// A template says nothing.
    #[error("DataImportCronTemplate {0:?} has no spec; it is ignored")]
    NoSpec(String),
    /// Two templates have one name.
    #[error("DataImportCronTemplate {0:?} is already defined; only the first one counts")]
    Duplicate(String),
    /// A template names architectures that no machine can have.
    #[error(
        "DataImportCronTemplate {template:?} names {architectures:?}; amd64, arm64 and s390x are accepted; they are ignored"
    )]
    UnknownArchitectures {
        /// The template.
        template: String,
        /// What it names.
        architectures: Vec<String>,
    },
    /// Nodes have architectures that no machine can have.
    #[error(
        "nodes have the architectures {0:?}; virtual machines can have amd64, arm64 and s390x; they are ignored"
    )]
    UnknownNodes(Vec<String>),
    /// The placement of workloads makes no sense.
    #[error("the node placement of workloads makes no sense, so that no node matches: {0}")]
    Placement(String),
    /// The switch is on, but there is one node.
    #[error(
        "images for every architecture were asked for, but the cluster has a single node; there are images for that node"
    )]
    SingleNode,
    /// There is no kind to pass it on with.
    #[error("kind SSP of ssp.kubevirt.io is not installed; images wait for it")]
    NoSsp,
}

impl Problem {
    /// A word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoName => "TemplateWithoutName",
            Self::NoSpec(_) => "TemplateWithoutSpec",
            Self::Duplicate(_) => "DuplicateTemplate",
            Self::UnknownArchitectures { .. } => "UnknownArchitectures",
            Self::UnknownNodes(_) => "UnsupportedNodeArchitectures",
            Self::Placement(_) => "InvalidPlacement",
            Self::SingleNode => "SingleNode",
            Self::NoSsp => "NotInstalled",
        }
    }
}

/// Decides what the SSP and the status have to be.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let architectures = facts.architectures;
    let switch = Switch::decide(facts.images, architectures.is_single_node());
    let mut problems = Vec::new();
    if !facts.ssp_installed {
        problems.push(Problem::NoSsp);
    }
    if switch.single_node && switch.asked {
        problems.push(Problem::SingleNode);
    }
    if !architectures.ignored.is_empty() {
        let names = architectures.ignored.keys().cloned().collect();
        problems.push(Problem::UnknownNodes(names));
    }
    if let Some(error) = &architectures.placement_error {
        problems.push(Problem::Placement(error.clone()));
    }
    let schedule = schedule(facts);
    let merged = merge::merge(facts, switch, &schedule, &mut problems);
    let filtered = filter::filter(facts, switch, merged, &mut problems);
    let samples = metrics::samples(facts, switch, &filtered);

    let templates: Vec<DataImportCronTemplate> = filtered
        .iter()
        .filter_map(|image| image.deployed.clone())
        .collect();
    let mut rest = facts.images.status.rest.clone();
    rest.insert("conditions".to_owned(), told(facts, switch, &problems));
    let status = HyperConvergedStatus {
        node_info: Some(node_info(architectures)),
        infrastructure_highly_available: Some(architectures.is_highly_available()),
        data_import_schedule: Some(schedule),
        data_import_cron_templates: filtered
            .into_iter()
            .map(|image| image.reported)
            .collect::<Vec<TemplateWithStatus>>(),
        rest,
    };
    Decision {
        status_changed: status != facts.images.status,
        ssp: project(facts, switch, &templates).filter(|_| facts.ssp_installed),
        switch,
        status,
        problems,
        samples,
    }
}

/// The conditions of a HyperConverged with what is to be said about its images. Those of others stay.
fn told(facts: &Facts<'_>, switch: Switch, problems: &[Problem]) -> Value {
    let said = match problems.first() {
        None => {
            let on = if switch.is_on() { "on" } else { "off" };
            let message = format!("images for every architecture are {on} ({})", switch.said);
            conditions::Said::new(ACCEPTED, true, "Accepted", message)
        }
        Some(first) => {
            let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
            conditions::Said::new(ACCEPTED, false, first.reason(), messages.join("; "))
        }
    };
    let known = facts.images.status.rest.get("conditions");
    let mut all = known.and_then(Value::as_array).cloned().unwrap_or_default();
    said.place(&mut all, facts.now, facts.images.generation);
    Value::Array(all)
}

fn node_info(architectures: &Architectures) -> NodeInfo {
    NodeInfo {
        workloads_architectures: architectures.workload.keys().cloned().collect(),
        control_plane_architectures: architectures.control_plane.keys().cloned().collect(),
        default_workload_architecture: architectures.default.architecture.clone(),
        ..NodeInfo::default()
    }
}

/// When built-in images are looked for: twice a day, at a time that differs from cluster to cluster.
fn schedule(facts: &Facts<'_>) -> String {
    let known = facts.images.status.data_import_schedule.as_deref();
    if let Some(known) = known.filter(|text| Schedule::parse(text).is_ok()) {
        return known.to_owned();
    }
    let minute = facts.seed % 60;
    let hour = (facts.seed / 60) % 12;
    format!("{minute} {hour}/12 * * *")
}

/// What has to be applied to the SSP.
fn project(
    facts: &Facts<'_>,
    switch: Switch,
    templates: &[DataImportCronTemplate],
) -> Option<Value> {
    let cluster = Cluster {
        workload_architectures: facts.architectures.workload.keys().cloned().collect(),
        control_plane_architectures: facts.architectures.control_plane.keys().cloned().collect(),
        ..Cluster::default()
    };
    let cluster = (cluster != Cluster::default()).then_some(cluster);
    let namespace = &facts.images.common_templates_namespace;
    if let Some(ssp) = facts.ssp {
        let spec = &ssp.spec;
        let common = &spec.common_templates;
        if spec.enable_multiple_architectures == Some(switch.is_on())
            && spec.cluster == cluster
            && common.namespace.as_ref() == Some(namespace)
            && common.data_import_cron_templates == templates
            && belongs(ssp, facts.images)
        {
            return None;
        }
    }
    let mut spec = json!({
        "enableMultipleArchitectures": switch.is_on(),
        "commonTemplates": { "namespace": namespace, "dataImportCronTemplates": templates },
    });
    if let Some(cluster) = cluster {
        spec["cluster"] = json!(cluster);
    }
    let mut metadata = json!({ "name": api::hco::SSP_NAME, "namespace": facts.images.namespace });
    if let Some(uid) = &facts.images.uid {
        // It goes with the HyperConverged.
        metadata["ownerReferences"] = json!([{
            "apiVersion": format!("{}/{}", api::hco::GROUP, facts.images.version.name()),
            "kind": "HyperConverged",
            "name": facts.images.name,
            "uid": uid,
        }]);
    }
    Some(json!({
        "apiVersion": "ssp.kubevirt.io/v1beta3",
        "kind": "SSP",
        "metadata": metadata,
        "spec": spec,
    }))
}

/// Whether an SSP goes with a HyperConverged.
fn belongs(ssp: &SSP, images: &Images) -> bool {
    let Some(uid) = &images.uid else {
        return true;
    };
    let mut owners = ssp.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == *uid)
}
