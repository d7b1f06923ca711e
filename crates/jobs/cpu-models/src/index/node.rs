//! The fields of a node that matter for CPU models.

use std::collections::BTreeMap;

use api::node;
use k8s_openapi::api::core::v1::{Node, Taint};

use crate::names::{HOST_MODEL_LABEL, TRUE, VENDOR_LABEL};
use crate::resources::{Resources, amounts};
use crate::table::{self, Vendor};

/// What the index reads of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeInputs {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.unschedulable`: whether it is cordoned.
    pub unschedulable: bool,
    /// Whether its Ready condition is `True`. A node without the condition counts as ready.
    pub ready: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// The architecture as GOARCH spells it.
    pub architecture: Option<String>,
    /// `status.allocatable`. Empty if the node reports none: then it counts as having what a VM requests.
    pub allocatable: Resources,
}

impl NodeInputs {
    /// Reads a Node object.
    pub fn from_node(node: &Node) -> Self {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let spec = node.spec.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels,
            unschedulable: node::is_cordoned(node),
            ready: node::ready(node).unwrap_or(true),
            taints: spec
                .and_then(|spec| spec.taints.clone())
                .unwrap_or_default(),
            architecture: node::architecture(node).map(str::to_owned),
            allocatable: node
                .status
                .as_ref()
                .and_then(|status| status.allocatable.as_ref())
                .map(amounts)
                .unwrap_or_default(),
        }
    }

    /// The CPU vendor according to its labels.
    pub fn vendor(&self) -> NodeVendor {
        let labels = self.labels.iter();
        NodeVendor::of_labels(labels.map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

/// The host model of a node.
pub fn host_model_of(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref()?;
    true_labels(labels, HOST_MODEL_LABEL).next()
}

/// The suffixes of the labels with this prefix whose value is `true`.
pub(crate) fn true_labels<'a>(
    labels: &'a BTreeMap<String, String>,
    prefix: &'a str,
) -> impl Iterator<Item = &'a str> {
    let from = labels.range::<str, _>((
        std::ops::Bound::Included(prefix),
        std::ops::Bound::Unbounded,
    ));
    from.map_while(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
        .filter(|(_, value)| *value == TRUE)
        .map(|(rest, _)| rest)
}

/// The CPU vendor of a node according to its labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeVendor {
    /// It has no `cpu-vendor` label.
    #[default]
    Missing,
    /// It has one, or its host model settles which of several is right.
    One(Vendor),
    /// It has several, and its host model does not settle which is right.
    Several(Vec<Vendor>),
}

impl NodeVendor {
    /// Reads the vendor labels. The node labeller never removes `cpu-vendor` labels, so a node that
    /// was reinstalled on other hardware under the same name has two. The vendor of its host model
    /// settles which is right.
    pub(crate) fn of_labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut vendors, mut host_vendors) = (Vec::new(), Vec::new());
        for (key, _) in labels.filter(|(_, value)| *value == TRUE) {
            if let Some(name) = key.strip_prefix(VENDOR_LABEL) {
                vendors.push(Vendor::new(name));
            } else if let Some(model) = key.strip_prefix(HOST_MODEL_LABEL) {
                host_vendors.extend(table::lookup(model).and_then(|model| model.vendor));
            }
        }
        vendors.sort();
        vendors.dedup();
        // `cpu-vendor` is not in `nodeLabellerLabels`
        // (pkg/virt-handler/node-labeller/node_labeller.go), the prefixes that are removed before
        // nodes are labelled again.
        if vendors.len() > 1 {
            let mut right = vendors.iter().filter(|one| host_vendors.contains(one));
            if let (Some(vendor), None) = (right.next(), right.next()) {
                return Self::One(vendor.clone());
            }
            return Self::Several(vendors);
        }
        vendors.pop().map_or(Self::Missing, Self::One)
    }

    /// The vendor, if it is unambiguous.
    pub fn one(&self) -> Option<&Vendor> {
        match self {
            Self::One(vendor) => Some(vendor),
            Self::Missing | Self::Several(_) => None,
        }
    }
}
