//! From an SSP to DataImportCrons, DataSources and templates: one of each per architecture, and a
//! pointer DataSource to the default.
//!
//! A ready name only moves to a ready target. While the image of an architecture is being imported,
//! the old import and its DataImportCron stay; both are deleted when nothing refers to them. This
//! holds for switching on and for switching off.

mod address;
pub mod admission;
mod adopted;
mod crons;
mod data_sources;
pub mod finalizers;
mod image;
pub mod status;
#[cfg(test)]
mod tests;
pub mod view;
mod vm_templates;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::cdi::{DataImportCron, DataSource, Named};
use api::golden::ImageState;
use api::ssp::{PAUSED, SSP};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

pub use volumes::{Labels, Volumes};

use crate::action::{Action, Kind, annotation, name_of};
use crate::architectures::{Candidates, Choice, Counts, choose};
use crate::list::{self, UnsupportedArchitectures};
use crate::policy::{Override, Policy};

/// The owner type in the annotations of objects created here.
const OWNER_KIND: &str = "SSP.ssp.kubevirt.io";

/// An SSP as recorded on its objects. Owner references do not cross namespaces, so the operator
/// SDK's annotations are used, as in upstream.
///
/// DataSources get an annotation of our own instead. Upstream deletes every DataSource with its
/// annotations that it would not create itself, and that is any whose name no VM template of its own
/// bundle refers to; without them it adopts those that it wants, and leaves the others alone.
struct Owner(String);

impl Owner {
    fn of(ssp: &SSP) -> Self {
        let Named { namespace, name } = name_of(&ssp.metadata);
        Self(format!("{namespace}/{name}"))
    }

    /// Whether an object was created for the SSP, by Medley or by the upstream operator.
    fn owns(&self, meta: &ObjectMeta) -> bool {
        self.is_marked(meta) || annotation(meta, api::golden::names::SSP) == Some(&self.0)
    }

    /// Whether an object has upstream's annotations for the SSP.
    fn is_marked(&self, meta: &ObjectMeta) -> bool {
        annotation(meta, api::ssp::OWNER) == Some(&self.0)
            && annotation(meta, api::ssp::OWNER_TYPE) == Some(OWNER_KIND)
    }

    /// Upstream's annotations.
    fn annotations(&self) -> [(&'static str, String); 2] {
        [
            (api::ssp::OWNER, self.0.clone()),
            (api::ssp::OWNER_TYPE, OWNER_KIND.to_owned()),
        ]
    }
}

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct SspInputs<'a> {
    /// The SSP.
    pub ssp: &'a SSP,
    /// All DataImportCrons.
    pub crons: &'a [DataImportCron],
    /// All DataSources.
    pub sources: &'a [DataSource],
    /// PVCs, snapshots and DataVolumes with their labels.
    pub volumes: &'a Volumes,
    /// The VM templates that are bundled with Medley.
    pub bundle: &'a [Value],
    /// The VM templates in the cluster.
    pub templates: &'a [Value],
    /// The policy in force.
    pub policy: &'a Policy,
    /// The number of workload nodes by architecture; may be empty.
    pub nodes: &'a Counts,
    /// The architecture of this binary, for an SSP without `spec.cluster`.
    pub own_architecture: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// The decision about an SSP.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// The writes, in this order.
    pub actions: Vec<Action>,
    /// What is postponed, and until when.
    pub waiting: Vec<PostponedWrite>,
    /// The problems of the specification.
    pub problems: Vec<Problem>,
    /// The state of all images, for the status of the policy.
    pub images: Vec<ImageState>,
    /// When to reconcile again, if nothing changes before.
    pub look_again: Option<Timestamp>,
    /// Whether the SSP is paused by its annotation.
    pub paused: bool,
}

/// A postponed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostponedWrite {
    /// The kind.
    pub kind: Kind,
    /// The object.
    pub of: Named,
    /// The event that it waits for.
    pub until: PostponedUntil,
}

/// The event that a write waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostponedUntil {
    /// The name keeps its current target until this DataSource is ready.
    Ready(String),
    /// This DataSource still refers to it.
    Released(String),
    /// No node has its architecture; the grace period ends at this time.
    Grace(Timestamp),
    /// Its imports are being detached, so that they outlive it.
    Detached,
    /// It is being deleted.
    Gone,
}

impl fmt::Display for PostponedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, of) = (self.kind.type_of().1, &self.of);
        write!(f, "{kind} {}/{} ", of.namespace, of.name)?;
        match &self.until {
            PostponedUntil::Ready(name) => {
                write!(f, "keeps its target until DataSource {name} is ready")
            }
            PostponedUntil::Released(name) => {
                write!(f, "is kept while DataSource {name} is in use")
            }
            PostponedUntil::Grace(end) => {
                write!(f, "is kept until {end}: no node has its architecture")
            }
            PostponedUntil::Detached => f.write_str("waits until its imports are detached"),
            PostponedUntil::Gone => f.write_str("is being deleted"),
        }
    }
}

/// A problem of the specification. Everything unaffected is still deployed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A template has no name.
    #[error("a DataImportCronTemplate has no name; it is ignored")]
    NoName,
    /// A template has no `managedDataSource`.
    #[error("DataImportCronTemplate {0:?} has no spec.managedDataSource; it is ignored")]
    NoDataSource(String),
    /// Two templates manage the same DataSource.
    #[error(
        "DataImportCronTemplates {kept:?} and {ignored:?} both manage DataSource {data_source:?}; only the first one is used"
    )]
    SameDataSource {
        /// The template that is used.
        kept: String,
        /// The template that is ignored.
        ignored: String,
        /// The DataSource.
        data_source: String,
    },
    /// A template lists architectures that VMs cannot have.
    #[error(transparent)]
    UnknownArchitectures(UnsupportedArchitectures),
    /// `spec.cluster` lists architectures that VMs cannot have.
    #[error(
        "spec.cluster lists unsupported architectures {0:?}; they are ignored; amd64, arm64 and s390x are supported"
    )]
    UnknownNodes(Vec<String>),
    /// A DataImportCron of that name has another owner.
    #[error(
        "cannot create DataImportCron {}/{}: it exists and does not belong to this SSP; it is not changed", .0.namespace, .0.name
    )]
    NotOurs(Named),
    /// A CRD of CDI is not installed.
    #[error("kind {0} of cdi.kubevirt.io is not installed; images are deployed once it is")]
    NotInstalled(String),
    /// The policy sets a default architecture that the image does not support.
    #[error("image {image:?}: default architecture {architecture} is not supported")]
    DefaultRefused {
        /// The image.
        image: String,
        /// The architecture in the policy.
        architecture: String,
    },
}

impl Problem {
    /// The reason, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoName => "TemplateWithoutName",
            Self::NoDataSource(_) => "TemplateWithoutDataSource",
            Self::SameDataSource { .. } => "DataSourceTaken",
            Self::UnknownArchitectures { .. } => "UnknownArchitectures",
            Self::UnknownNodes(_) => "UnsupportedNodeArchitectures",
            Self::NotOurs(_) => "NotOurs",
            Self::NotInstalled(_) => "NotInstalled",
            Self::DefaultRefused { .. } => "DefaultArchitectureRefused",
        }
    }
}

/// `spec.cluster` of the SSP.
#[derive(Debug, Clone, Default)]
struct Cluster<'a> {
    multi_arch: bool,
    workload: BTreeSet<&'a str>,
    control_plane: Vec<&'a str>,
}

/// The inputs of the decision, indexed.
struct SspContext<'a> {
    facts: &'a SspInputs<'a>,
    cluster: Cluster<'a>,
    crons: BTreeMap<Named, &'a DataImportCron>,
    sources: BTreeMap<Named, &'a DataSource>,
    owner: Owner,
}

impl<'a> SspContext<'a> {
    fn new(facts: &'a SspInputs<'a>, problems: &mut Vec<Problem>) -> Self {
        Self {
            facts,
            cluster: cluster(facts.ssp, problems),
            crons: facts
                .crons
                .iter()
                .map(|cron| (name_of(&cron.metadata), cron))
                .collect(),
            sources: facts
                .sources
                .iter()
                .map(|source| (name_of(&source.metadata), source))
                .collect(),
            owner: Owner::of(facts.ssp),
        }
    }

    /// Whether an object was created for this SSP.
    fn owns(&self, meta: &ObjectMeta) -> bool {
        self.owner.owns(meta)
    }

    /// The annotations that record it on everything but DataSources.
    fn ownership(&self) -> [(&'static str, String); 2] {
        self.owner.annotations()
    }

    /// The architecture to use where there is only one for all images.
    fn default(&self) -> Choice {
        let own = list::normal(self.facts.own_architecture);
        let mut supported = self.cluster.workload.clone();
        if supported.is_empty() {
            supported.extend(self.cluster.control_plane.iter().copied());
        }
        if supported.is_empty() {
            supported.insert(&own);
        }
        choose(&Candidates {
            supported: &supported,
            control_plane: &self.cluster.control_plane,
            nodes: self.facts.nodes,
            wanted: Override {
                image: None,
                cluster: self.facts.policy.default_architecture.as_deref(),
            },
            health: &BTreeMap::new(),
        })
    }
}

/// Reads `spec.cluster`. Unsupported architectures are reported and ignored.
fn cluster<'a>(ssp: &'a SSP, problems: &mut Vec<Problem>) -> Cluster<'a> {
    let mut read = Cluster {
        multi_arch: ssp.spec.enable_multiple_architectures == Some(true),
        ..Cluster::default()
    };
    let Some(cluster) = &ssp.spec.cluster else {
        return read;
    };
    // Upstream's webhook rejects the whole SSP (`ToArch` in internal/architecture/architecture.go):
    // one node of another architecture stops every change of the images.
    let mut unknown = BTreeSet::new();
    let mut known = |name: &'a String| {
        let known = list::is_known(name);
        if !known {
            unknown.insert(name.clone());
        }
        known.then_some(name.as_str())
    };
    read.workload = cluster
        .workload_architectures
        .iter()
        .filter_map(&mut known)
        .collect();
    for name in &cluster.control_plane_architectures {
        if let Some(name) = known(name)
            && !read.control_plane.contains(&name)
        {
            read.control_plane.push(name);
        }
    }
    if !unknown.is_empty() {
        problems.push(Problem::UnknownNodes(unknown.into_iter().collect()));
    }
    read
}

/// Decides what has to exist for an SSP, and the writes that lead there.
pub fn decide(facts: &SspInputs<'_>) -> Decision {
    let mut decision = Decision::default();
    if facts.ssp.metadata.deletion_timestamp.is_some() {
        let context = SspContext::new(facts, &mut decision.problems);
        clean_up(&context, &mut decision);
        return decision;
    }
    // After the deletion: as in upstream, a paused SSP is still cleaned up.
    if annotation(&facts.ssp.metadata, PAUSED) == Some("true") {
        decision.paused = true;
        return decision;
    }
    let context = SspContext::new(facts, &mut decision.problems);
    let images = image::expand(&context, &mut decision.problems);
    let desired = data_sources::wanted(&context, &images);
    // DataSources first: one that stays has to lose the label of its DataImportCron before that is
    // deleted, or CDI deletes both (retentionPolicy None).
    data_sources::apply(&context, &desired, &mut decision);
    let gone = crons::apply(&context, &images, &desired, &mut decision);
    data_sources::sweep(&context, &desired, &gone, &mut decision);
    vm_templates::apply(&context, &mut decision);
    decision.images = image::report(&context, &images, &desired);
    decision
}

/// Cleanup of an SSP that is being deleted: first the DataImportCrons, then the rest, as in
/// upstream.
fn clean_up(context: &SspContext<'_>, decision: &mut Decision) {
    let mut crons = false;
    for (name, cron) in &context.crons {
        if !context.owns(&cron.metadata) {
            continue;
        }
        crons = true;
        if cron.metadata.deletion_timestamp.is_none() {
            decision.actions.push(Action::Delete {
                kind: Kind::DataImportCron,
                of: name.clone(),
                why: "the SSP is being deleted",
            });
        } else {
            decision.waiting.push(PostponedWrite {
                kind: Kind::DataImportCron,
                of: name.clone(),
                until: PostponedUntil::Gone,
            });
        }
    }
    // A DataImportCron creates its DataSource again when it is missing, so the DataSources wait.
    if crons {
        return;
    }
    data_sources::sweep(context, &BTreeMap::new(), &BTreeSet::new(), decision);
    vm_templates::delete_all(context, decision);
}
