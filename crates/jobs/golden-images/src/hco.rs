//! From a HyperConverged to an SSP: the desired images and their architectures.

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
pub use switch::{Switch, SwitchSource};

use crate::architectures::Architectures;
use crate::conditions;
use crate::list::UnsupportedArchitectures;
use crate::policy::Policy;

/// The condition of a HyperConverged that reports whether its images were accepted as specified.
pub const ACCEPTED: &str = "GoldenImagesAccepted";

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct HcoInputs<'a> {
    /// The HyperConverged.
    pub images: &'a Images,
    /// Built-in templates.
    pub built_in: &'a [DataImportCronTemplate],
    /// The architectures of the nodes.
    pub architectures: &'a Architectures,
    /// The policy in force.
    pub policy: &'a Policy,
    /// The architectures that images actually have, by the name of their template.
    pub discovered: &'a BTreeMap<String, BTreeSet<String>>,
    /// Whether the SSP CRD is installed.
    pub ssp_installed: bool,
    /// The current SSP.
    pub ssp: Option<&'a SSP>,
    /// A value that differs between clusters, used once to generate the schedule.
    pub seed: u64,
    /// The current time.
    pub now: Timestamp,
}

/// The decision about a HyperConverged.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether multi-architecture images are enabled, and by what.
    pub switch: Switch,
    /// The desired status of the HyperConverged.
    pub status: HyperConvergedStatus,
    /// Whether it differs from the current one.
    pub status_changed: bool,
    /// The SSP to apply; `None` if it is as desired.
    pub ssp: Option<Value>,
    /// The problems of the specification.
    pub problems: Vec<Problem>,
    /// All metric samples; those of an earlier decision that are missing here are obsolete.
    pub samples: Vec<Sample>,
}

/// A problem of the specification. Everything unaffected is still deployed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A template has no name.
    #[error("a DataImportCronTemplate has no name; it is ignored")]
    NoName,
    /// A template has no spec.
    #[error("DataImportCronTemplate {0:?} has no spec; it is ignored")]
    NoSpec(String),
    /// Two templates have the same name.
    #[error("DataImportCronTemplate {0:?} is already defined; only the first one is used")]
    Duplicate(String),
    /// A template lists architectures that VMs cannot have.
    #[error(transparent)]
    UnknownArchitectures(UnsupportedArchitectures),
    /// Nodes have architectures that VMs cannot have.
    #[error(
        "nodes have unsupported architectures {0:?}; they are ignored; VMs support amd64, arm64 and s390x"
    )]
    UnknownNodes(Vec<String>),
    /// The placement of workloads is invalid.
    #[error("the node placement of workloads is invalid, so no node matches: {0}")]
    Placement(String),
    /// Multi-architecture images are enabled in a cluster with one node.
    #[error(
        "multi-architecture images are enabled, but the cluster has a single node; images are imported for that node only"
    )]
    SingleNode,
    /// The SSP CRD is not installed.
    #[error("kind SSP of ssp.kubevirt.io is not installed; images are deployed once it is")]
    NoSsp,
}

impl Problem {
    /// The reason, in CamelCase.
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

/// Decides about the SSP and the status of the HyperConverged.
pub fn decide(facts: &HcoInputs<'_>) -> Decision {
    let architectures = facts.architectures;
    let switch = Switch::decide(facts.images, architectures.is_single_node());
    let mut problems = Vec::new();
    if !facts.ssp_installed {
        problems.push(Problem::NoSsp);
    }
    if switch.single_node && switch.requested {
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
    // The list is replaced as a whole by a status write, so the conditions of HCO's own operator
    // are carried along.
    rest.insert(
        "conditions".to_owned(),
        with_accepted_condition(facts, switch, &problems),
    );
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

/// The conditions of a HyperConverged with the one about images set; those of other controllers
/// stay.
fn with_accepted_condition(facts: &HcoInputs<'_>, switch: Switch, problems: &[Problem]) -> Value {
    let update = match problems.first() {
        None => {
            let on = if switch.is_on() { "on" } else { "off" };
            let message = format!("multi-architecture images are {on} ({})", switch.source);
            conditions::ConditionUpdate::new(ACCEPTED, true, "Accepted", message)
        }
        Some(first) => {
            let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
            conditions::ConditionUpdate::new(ACCEPTED, false, first.reason(), messages.join("; "))
        }
    };
    let known = facts.images.status.rest.get("conditions");
    let mut all = known.and_then(Value::as_array).cloned().unwrap_or_default();
    update.place(&mut all, facts.now, facts.images.generation);
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

/// The schedule of built-in images: twice a day, at a time that differs between clusters. Generated
/// once and kept in the status, as in HCO.
fn schedule(facts: &HcoInputs<'_>) -> String {
    let known = facts.images.status.data_import_schedule.as_deref();
    // A value that cannot be parsed would stop all polls; it is replaced.
    if let Some(known) = known.filter(|text| Schedule::parse(text).is_ok()) {
        return known.to_owned();
    }
    // The form of HCO (controllers/hyperconverged/dataimportschedule.go), by the seed of the
    // cluster instead of a random number: after a loss of the status, the result is the same.
    let minute = facts.seed % 60;
    let hour = (facts.seed / 60) % 12;
    format!("{minute} {hour}/12 * * *")
}

/// The SSP to apply, or `None` if it is as desired.
fn project(
    facts: &HcoInputs<'_>,
    switch: Switch,
    templates: &[DataImportCronTemplate],
) -> Option<Value> {
    let cluster = Cluster {
        workload_architectures: facts.architectures.workload.keys().cloned().collect(),
        control_plane_architectures: facts.architectures.control_plane.keys().cloned().collect(),
        ..Cluster::default()
    };
    // Written whether the switch is on or off, as HCO does it; absent while no node has reported
    // its architecture, because SSP rejects empty lists in multi-architecture mode.
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
        // Garbage collection deletes it with the HyperConverged.
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

/// Whether the HyperConverged owns an SSP.
fn belongs(ssp: &SSP, images: &Images) -> bool {
    let Some(uid) = &images.uid else {
        return true;
    };
    let mut owners = ssp.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == *uid)
}
