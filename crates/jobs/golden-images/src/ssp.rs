//! From an SSP to DataImportCrons, DataSources and templates: one of each for every architecture,
//! and one name that stands for the default.
//!
//! A name that can be used is only ever moved to something that can be used. While the image of an
//! architecture arrives, the old import and the DataImportCron behind it stay; both go when nothing
//! needs them. That is so for switching on and for switching off.

mod address;
pub mod admission;
mod crons;
mod image;
mod machines;
mod slots;
pub mod status;
#[cfg(test)]
mod tests;
pub mod view;
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
use crate::list;
use crate::policy::{Override, Policy};

/// The kind that owns what is made here.
const OWNER_KIND: &str = "SSP.ssp.kubevirt.io";

/// An SSP as what it owns knows it, in other namespaces, too.
struct Owner(String);

impl Owner {
    fn of(ssp: &SSP) -> Self {
        let Named { namespace, name } = name_of(&ssp.metadata);
        Self(format!("{namespace}/{name}"))
    }

    /// Whether an object was made for it.
    fn owns(&self, meta: &ObjectMeta) -> bool {
        annotation(meta, api::ssp::OWNER) == Some(&self.0)
            && annotation(meta, api::ssp::OWNER_TYPE) == Some(OWNER_KIND)
    }

    /// The annotations that say so.
    fn annotations(&self) -> [(&'static str, String); 2] {
        [
            (api::ssp::OWNER, self.0.clone()),
            (api::ssp::OWNER_TYPE, OWNER_KIND.to_owned()),
        ]
    }
}

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The SSP.
    pub ssp: &'a SSP,
    /// All DataImportCrons.
    pub crons: &'a [DataImportCron],
    /// All DataSources.
    pub sources: &'a [DataSource],
    /// Volumes and snapshots, and their labels.
    pub volumes: &'a Volumes,
    /// The templates of virtual machines that come with the program.
    pub bundle: &'a [Value],
    /// The templates of virtual machines in the cluster.
    pub templates: &'a [Value],
    /// How images are kept.
    pub policy: &'a Policy,
    /// How many nodes run virtual machines of each architecture; may be empty.
    pub nodes: &'a Counts,
    /// The architecture of this program, for an SSP that knows no nodes.
    pub own_architecture: &'a str,
    /// Now.
    pub now: Timestamp,
}

/// What follows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// What is not done yet, and what for.
    pub waiting: Vec<Waiting>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// The images, for everybody who wants to know.
    pub images: Vec<ImageState>,
    /// When to look again, if nothing happens before.
    pub look_again: Option<Timestamp>,
    /// Whether nothing is done because somebody wants it so.
    pub paused: bool,
}

/// Something that is not done yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The kind.
    pub kind: Kind,
    /// The object.
    pub of: Named,
    /// What it waits for.
    pub until: Until,
}

/// What something waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// The name can be used as it is; what it should stand for cannot be used yet.
    Ready(String),
    /// A name still stands for it.
    Released(String),
    /// No node has its architecture; one may come back until then.
    Grace(Timestamp),
    /// Its imports are made to outlive it.
    Detached,
    /// It is being deleted.
    Gone,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, of) = (self.kind.type_of().1, &self.of);
        write!(f, "{kind} {}/{} ", of.namespace, of.name)?;
        match &self.until {
            Until::Ready(name) => write!(f, "stays as it is until DataSource {name} can be used"),
            Until::Released(name) => write!(f, "stays while DataSource {name} is in use"),
            Until::Grace(end) => write!(f, "stays until {end} for want of nodes"),
            Until::Detached => f.write_str("waits until its imports can outlive it"),
            Until::Gone => f.write_str("is being deleted"),
        }
    }
}

/// Something that is wrong. Everything else goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A template has no name.
    #[error("a DataImportCronTemplate has no name; it is ignored")]
    NoName,
    /// A template names no DataSource.
    #[error("DataImportCronTemplate {0:?} has no spec.managedDataSource; it is ignored")]
    NoDataSource(String),
    /// Two templates want one DataSource.
    #[error(
        "DataImportCronTemplates {kept:?} and {ignored:?} both manage DataSource {data_source:?}; only the first one counts"
    )]
    SameDataSource {
        /// The one that counts.
        kept: String,
        /// The one that does not.
        ignored: String,
        /// The DataSource.
        data_source: String,
    },
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
    /// The SSP names architectures that no machine can have.
    #[error("spec.cluster names {0:?}; amd64, arm64 and s390x are accepted; they are ignored")]
    UnknownNodes(Vec<String>),
    /// Somebody else has an object of that name.
    #[error(
        "DataImportCron {}/{} is wanted, but there is one that does not belong to this SSP; it is left alone", .0.namespace, .0.name
    )]
    NotOurs(Named),
    /// There is no kind to make images with.
    #[error("kind {0} of cdi.kubevirt.io is not installed; images wait for it")]
    NotInstalled(String),
    /// A policy asks for what cannot be had.
    #[error("image {image:?}: {architecture} was asked for as the default, but is not supported")]
    DefaultRefused {
        /// The image.
        image: String,
        /// What was asked for.
        architecture: String,
    },
}

impl Problem {
    /// A word for it.
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

/// What nodes there are, as the SSP says it.
#[derive(Debug, Clone, Default)]
struct Cluster<'a> {
    multi_arch: bool,
    workload: BTreeSet<&'a str>,
    control_plane: Vec<&'a str>,
}

/// Everything that a part of the decision looks at.
struct Scene<'a> {
    facts: &'a Facts<'a>,
    cluster: Cluster<'a>,
    crons: BTreeMap<Named, &'a DataImportCron>,
    sources: BTreeMap<Named, &'a DataSource>,
    owner: Owner,
}

impl<'a> Scene<'a> {
    fn new(facts: &'a Facts<'a>, problems: &mut Vec<Problem>) -> Self {
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

    /// Whether an object was made for this SSP.
    fn owns(&self, meta: &ObjectMeta) -> bool {
        self.owner.owns(meta)
    }

    /// The annotations that say so.
    fn ownership(&self) -> [(&'static str, String); 2] {
        self.owner.annotations()
    }

    /// The one architecture, where there is one for all.
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

/// Reads `spec.cluster`. An architecture that no machine can have is set aside.
fn cluster<'a>(ssp: &'a SSP, problems: &mut Vec<Problem>) -> Cluster<'a> {
    let mut read = Cluster {
        multi_arch: ssp.spec.enable_multiple_architectures == Some(true),
        ..Cluster::default()
    };
    let Some(cluster) = &ssp.spec.cluster else {
        return read;
    };
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

/// Decides what there has to be, and what to do to get there.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision::default();
    if facts.ssp.metadata.deletion_timestamp.is_some() {
        let scene = Scene::new(facts, &mut decision.problems);
        leave(&scene, &mut decision);
        return decision;
    }
    if annotation(&facts.ssp.metadata, PAUSED) == Some("true") {
        decision.paused = true;
        return decision;
    }
    let scene = Scene::new(facts, &mut decision.problems);
    let images = image::expand(&scene, &mut decision.problems);
    let slots = slots::wanted(&scene, &images);
    slots::apply(&scene, &slots, &mut decision);
    let gone = crons::apply(&scene, &images, &slots, &mut decision);
    slots::sweep(&scene, &slots, &gone, &mut decision);
    machines::apply(&scene, &mut decision);
    decision.images = image::report(&scene, &images, &slots);
    decision
}

/// The SSP is being deleted: first the DataImportCrons, and when they are gone, the rest.
fn leave(scene: &Scene<'_>, decision: &mut Decision) {
    let mut crons = false;
    for (name, cron) in &scene.crons {
        if !scene.owns(&cron.metadata) {
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
            decision.waiting.push(Waiting {
                kind: Kind::DataImportCron,
                of: name.clone(),
                until: Until::Gone,
            });
        }
    }
    if crons {
        return;
    }
    slots::sweep(scene, &BTreeMap::new(), &BTreeSet::new(), decision);
    machines::leave(scene, decision);
}
