//! Whether the disks in use are for the architectures that their DataSources promise, whichever operator imported them.
//!
//! ```text
//! DataSource, its volume, DataImportCron --checks--> what the import selected, and the digest that it used
//! that digest at the registry ------------judge---> Verified, Mismatch, or why it cannot be verified
//! ```
//!
//! CDI imports by the digest of an index, and lets its importer choose the manifest. A version of CDI that does not know
//! the field with the architecture, or an image that lost it, leads to a disk for another architecture under the name of
//! the right one; nothing in the objects of CDI says so.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use api::cdi::DataImportCron;
use api::golden::{Verification, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::action::annotation;
use crate::cdi::failure::{Failure, Reason as FailureReason};
use crate::cdi::poll::{self, PollQuery};
use crate::conditions::ConditionUpdate;
use crate::history::volumes::ENDPOINT;
use crate::list::ArchitectureList;
use crate::overview::{OverviewInputs, Variant, images};

/// The condition of the GoldenImagePolicy.
pub const CONDITION: &str = "ArchitecturesVerified";
/// On a PVC that CDI imports into: the architecture that its importer selects.
const SELECTED: &str = "cdi.kubevirt.io/storage.import.registryImageArchitecture";
/// How many findings a condition lists.
const MAX_LISTED: usize = 8;

/// The result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The imported manifest is for the architecture.
    Verified,
    /// It is for another one.
    Mismatch,
    /// Neither can be determined.
    NotVerifiable,
}

impl Outcome {
    /// The outcome as reported.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "Verified",
            Self::Mismatch => "Mismatch",
            Self::NotVerifiable => "NotVerifiable",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a disk has its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Verdict {
    fn new(outcome: Outcome, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            outcome,
            reason,
            message: message.into(),
        }
    }

    /// The verdict on the contents of a disk: the architectures that it boots on, or why they are unknown. A disk without
    /// evidence leaves the verdict of its manifest.
    #[must_use]
    pub fn with_contents(
        self,
        architecture: &str,
        boots_on: Result<&BTreeSet<String>, &str>,
    ) -> Self {
        let Self {
            outcome,
            reason,
            message,
        } = self;
        match boots_on {
            Ok(found) if found.is_empty() => Self {
                message: format!("{message}; no boot loader is recognised on the disk"),
                outcome,
                reason,
            },
            Ok(found) if found.contains(architecture) => Self {
                message: format!("{message}; the disk boots on {}", joined(found)),
                outcome,
                reason,
            },
            Ok(found) => Self::new(
                Outcome::Mismatch,
                "DiskMismatch",
                format!("{message}; but the disk boots on {}", joined(found)),
            ),
            Err(why) => Self {
                message: format!("{message}; the disk is not verified: {why}"),
                outcome,
                reason,
            },
        }
    }
}

/// What to ask a registry about an import.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The image, and its credentials.
    pub query: PollQuery,
    /// The digest that was imported: of an index, or of a manifest.
    pub digest: String,
    /// The architecture that the disk is for.
    pub architecture: String,
    /// Whether the import selected that architecture. Otherwise the importer chose that of its node.
    pub is_selected: bool,
}

/// The answer of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the digest is that of an index.
    pub is_index: bool,
    /// The architectures of the image.
    pub architectures: BTreeSet<String>,
    /// The digest of the manifest for the architecture, whose config says so, too; or why there is none.
    pub manifest: Result<String, Failure>,
}

/// The next step of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The registry has to be asked.
    Ask(Box<Question>),
    /// The objects of the cluster decide it.
    Decided(Verdict),
}

/// A disk to verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The namespace of the image.
    pub namespace: String,
    /// The image.
    pub image: String,
    /// The architecture; empty if it is unknown.
    pub architecture: String,
    /// The DataSource.
    pub data_source: String,
    /// The DataImportCron.
    pub cron: Option<String>,
    /// The digest in use.
    pub digest: Option<String>,
    /// The architectures that Medley found on the disk when it imported it.
    pub sniffed: BTreeSet<String>,
    /// How it is verified.
    pub step: Step,
}

impl Check {
    /// The verdict with what Medley found on the disk when it imported it; CDI does not look.
    pub fn with_recorded_contents(&self, verdict: Verdict) -> Verdict {
        if self.sniffed.is_empty() || verdict.outcome != Outcome::Verified {
            return verdict;
        }
        verdict.with_contents(&self.architecture, Ok(&self.sniffed))
    }

    /// The verification with a verdict, as the policy reports it.
    pub fn reported(&self, verdict: &Verdict) -> Verification {
        Verification {
            namespace: self.namespace.clone(),
            data_source: self.data_source.clone(),
            architecture: self.architecture.clone(),
            digest: self.digest.clone(),
            result: verdict.outcome.as_str().to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.clone(),
        }
    }
}

/// The disks to verify: one for each architecture of each image. `nodes` has the architectures of the nodes that import
/// and run VMs; if it is one only, images without an architecture are for it.
pub fn checks(inputs: &OverviewInputs<'_>, nodes: &BTreeSet<String>) -> Vec<Check> {
    let only = nodes.first().filter(|_| nodes.len() == 1);
    let mut checks = Vec::new();
    for image in images(inputs) {
        for variant in &image.architectures {
            let declared = Some(&variant.architecture).filter(|it| !it.is_empty());
            let architecture = declared.or(only).cloned().unwrap_or_default();
            checks.push(Check {
                namespace: image.namespace.clone(),
                image: image.name.clone(),
                data_source: variant.data_source.clone(),
                cron: variant.cron.clone(),
                digest: variant.digest.clone(),
                sniffed: sniffed(inputs, &image.namespace, variant),
                step: step(inputs, &image.namespace, variant, &architecture, only),
                architecture,
            });
        }
    }
    checks
}

fn step(
    inputs: &OverviewInputs<'_>,
    namespace: &str,
    variant: &Variant,
    architecture: &str,
    only: Option<&String>,
) -> Step {
    let unknown = |reason, message: String| {
        Step::Decided(Verdict::new(Outcome::NotVerifiable, reason, message))
    };
    let volume = variant.volume.as_deref().and_then(|it| it.split_once('/'));
    let Some((_, volume)) = volume else {
        return unknown("NotImported", "no disk is imported yet".to_owned());
    };
    if architecture.is_empty() {
        let why = "it is imported without an architecture, and nodes have several";
        return unknown("NoArchitecture", why.to_owned());
    }
    let mut crons = inputs.crons.iter();
    let cron = crons.find(|it| {
        it.metadata.namespace.as_deref() == Some(namespace) && it.metadata.name == variant.cron
    });
    let Some(cron) = cron.filter(|_| variant.cron.is_some()) else {
        let why = format!("no DataImportCron imports {volume}, so its source is unknown");
        return unknown("NoSource", why);
    };
    let selected = selected(inputs, cron, namespace, volume);
    if let Some(selected) = selected.as_ref().filter(|it| *it != architecture) {
        return Step::Decided(Verdict::new(
            Outcome::Mismatch,
            "AnotherSelected",
            format!("the import into {volume} selected {selected}"),
        ));
    }
    let query = poll::question(cron).filter(|it| it.web.is_none());
    let Some(query) = query else {
        let why = "only images of a registry, by URL, state an architecture";
        return unknown("NoRegistry", why.to_owned());
    };
    let Some(digest) = variant
        .digest
        .as_ref()
        .filter(|it| it.starts_with("sha256:"))
    else {
        let why = format!("the digest that was imported into {volume} is unknown");
        return unknown("NoDigest", why);
    };
    Step::Ask(Box::new(Question {
        query,
        digest: digest.clone(),
        architecture: architecture.to_owned(),
        is_selected: selected.is_some() || only.is_some_and(|only| only == architecture),
    }))
}

/// The architectures that are recorded on the volume or snapshot in use.
fn sniffed(inputs: &OverviewInputs<'_>, namespace: &str, variant: &Variant) -> BTreeSet<String> {
    let claims = inputs.claims.iter().map(|it| &it.metadata);
    let snapshots = inputs.snapshots.iter().map(|it| &it.metadata);
    let name = variant.volume.as_deref().and_then(|it| it.split_once('/'));
    let recorded = claims.chain(snapshots).find_map(|meta| {
        let is_it = meta.namespace.as_deref() == Some(namespace)
            && meta.name.as_deref() == name.map(|(_, name)| name);
        annotation(meta, names::SNIFFED).filter(|_| is_it)
    });
    let listed = recorded.map(ArchitectureList::parse).unwrap_or_default();
    listed.known.into_iter().chain(listed.unknown).collect()
}

/// The architecture that the import into a volume selected: what the importer of CDI was given counts, then what the
/// DataVolume says, then what the next import would select.
fn selected(
    inputs: &OverviewInputs<'_>,
    cron: &DataImportCron,
    namespace: &str,
    volume: &str,
) -> Option<String> {
    let is_it = |meta: &ObjectMeta| {
        meta.namespace.as_deref() == Some(namespace) && meta.name.as_deref() == Some(volume)
    };
    let claim = inputs.claims.iter().find(|it| is_it(&it.metadata));
    if let Some(claim) = claim.filter(|it| annotation(&it.metadata, ENDPOINT).is_some()) {
        return annotation(&claim.metadata, SELECTED).map(str::to_owned);
    }
    let import = inputs.imports.iter().find(|it| is_it(&it.metadata));
    let registry = import
        .and_then(|it| it.spec.source.as_ref())
        .and_then(|it| it.registry.as_ref());
    match registry {
        Some(registry) => registry.platform.as_ref()?.architecture.clone(),
        None => cron.spec.architecture().map(str::to_owned),
    }
    .filter(|it| !it.is_empty())
}

/// The verdict on the answer of a registry.
pub fn judge(question: &Question, answer: &Result<Answer, Failure>) -> Verdict {
    let Question {
        digest,
        architecture,
        ..
    } = question;
    let unknown = |failure: &Failure| {
        Verdict::new(
            Outcome::NotVerifiable,
            failure.reason.as_str(),
            failure.message.clone(),
        )
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => return unknown(failure),
    };
    match &answer.manifest {
        Ok(_) if answer.is_index && answer.architectures.len() > 1 && !question.is_selected => {
            Verdict::new(
                Outcome::NotVerifiable,
                "NothingSelected",
                format!(
                    "the import selected no architecture of {digest}, which has {}; the importer took that of its node",
                    joined(&answer.architectures)
                ),
            )
        }
        Ok(manifest) if answer.is_index => Verdict::new(
            Outcome::Verified,
            "ManifestMatches",
            format!("manifest {manifest} of index {digest} is for {architecture}"),
        ),
        Ok(_) => Verdict::new(
            Outcome::Verified,
            "ManifestMatches",
            format!("manifest {digest} is for {architecture}"),
        ),
        Err(failure) => match failure.reason {
            FailureReason::ArchitectureNotFound
            | FailureReason::NotAnIndex
            | FailureReason::ArchitectureMismatch => Verdict::new(
                Outcome::Mismatch,
                failure.reason.as_str(),
                failure.message.clone(),
            ),
            _ => unknown(failure),
        },
    }
}

/// Whether the registry may answer differently later. Digests never change what they stand for.
pub fn is_final(verdict: &Verdict) -> bool {
    verdict.outcome != Outcome::NotVerifiable || FailureReason::parse(verdict.reason).is_none()
}

/// The condition of the policy. Disks that are not imported yet are not among what it is about.
pub fn condition(all: &[Verification]) -> ConditionUpdate {
    let of = |outcome: Outcome| {
        all.iter()
            .filter(move |it| it.result == outcome.as_str() && it.reason != "NotImported")
            .collect::<Vec<_>>()
    };
    let listed = |found: &[&Verification]| {
        let mut texts: Vec<String> = found
            .iter()
            .take(MAX_LISTED)
            .map(|it| sentence(it))
            .collect();
        if found.len() > MAX_LISTED {
            texts.push(format!("and {} more", found.len() - MAX_LISTED));
        }
        texts.join("; ")
    };
    let (mismatches, unknown) = (of(Outcome::Mismatch), of(Outcome::NotVerifiable));
    if !mismatches.is_empty() {
        let message = listed(&mismatches);
        return ConditionUpdate::new(CONDITION, false, "ArchitectureMismatch", message);
    }
    if !unknown.is_empty() {
        return ConditionUpdate::new(CONDITION, false, "NotVerifiable", listed(&unknown));
    }
    let message = "every disk in use is for the architecture of its DataSource";
    ConditionUpdate::new(CONDITION, true, CONDITION, message)
}

/// A verification as part of a message.
pub fn sentence(found: &Verification) -> String {
    let Verification {
        namespace,
        data_source,
        architecture,
        message,
        ..
    } = found;
    let of = if architecture.is_empty() {
        String::new()
    } else {
        format!(" for {architecture}")
    };
    format!("{namespace}/{data_source}{of}: {message}")
}

fn joined(architectures: &BTreeSet<String>) -> String {
    let all: Vec<&str> = architectures.iter().map(String::as_str).collect();
    all.join(", ")
}
