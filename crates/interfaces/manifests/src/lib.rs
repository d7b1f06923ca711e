//! An installation of Medley as objects: one description, options in, objects out.
//!
//! ```text
//! Options --objects--> what a cluster gets, in the order in which it can take it
//!            files---> the same as files: plain, for kustomize, Helm, OLM and krew
//! ```
//!
//! Everything is described once, in entries: objects, the [`Part`] they belong to, and when they are
//! there. `medley manifests` keeps the entries that options ask for; a Helm chart has all of them,
//! with the same conditions as templates. Rights come from [`Job::rules`], and so from what each job and
//! each profile of governance declares.

mod dashboards;
mod entry;
mod files;
mod job;
mod monitoring;
mod options;
mod rbac;
mod workloads;

#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

pub use dashboards::DASHBOARDS;
pub use entry::{Object, Part};
pub use files::{BEGIN as FILE, files};
pub use job::Job;
pub use options::{Error, Options, PullSecrets};
pub use rbac::{callers_role, job_role, profile_role, pull_secret_role, user_roles, webhook_role};

use entry::{Entry, Fill, When};

/// The namespace of an installation, unless somebody says another.
pub const NAMESPACE: &str = "medley-system";
/// The account that the controllers run under, and their Deployment.
pub const ACCOUNT: &str = "medley-operator";
/// The account that the admission checks run under, their Deployment and their Service.
pub const WEBHOOK: &str = "medley-webhook";
/// The Secret with the authorities that sign the certificates of the admission checks.
pub const AUTHORITY: &str = "medley-webhook-authority";
/// The namespace of [`CALLERS`].
pub const CALLERS_NAMESPACE: &str = "kube-system";
/// The ConfigMap in which kube-apiserver publishes the authorities of client certificates.
pub const CALLERS: &str = "extension-apiserver-authentication";
/// The Service of the console.
pub const CONSOLE: &str = "medley-console";
/// The lease that replicas agree by on who works.
pub const LEASE: &str = "medley";
/// The role of the controllers where they keep the ClusterVersion.
pub const RELEASE_OWNER: &str = "medley-operator-release-owner";
/// The role of the controllers where releases are kept as ConfigMaps, in that namespace.
pub const RELEASE_PAYLOADS: &str = "medley-operator-release-payloads";
/// The role of the controllers and the checks in a namespace of pull secrets that policies name.
pub const NAMED_SECRETS: &str = "medley-pull-secrets";
/// The version of Medley.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where images of Medley are.
pub const REPOSITORY: &str = "ghcr.io/medley-dev/medley";
/// The image of this very version.
pub const IMAGE: &str = concat!("ghcr.io/medley-dev/medley:", env!("CARGO_PKG_VERSION"));
/// Where Medley is developed and documented.
pub const HOME: &str = "https://github.com/medley-dev/medley";
/// The oldest Kubernetes that has everything: conditions of webhooks and scheduling gates are there for good.
pub const OLDEST_KUBERNETES: (u32, u32) = (1, 30);

/// What a cluster gets, in the order in which it can take it: namespace and definitions first.
pub fn objects(options: &Options) -> Result<Vec<Object>, Error> {
    options.validate()?;
    let mut objects = Vec::new();
    for entry in entries(options)? {
        if entry.part == Part::Monitoring && !options.monitoring {
            continue;
        }
        if options.has(&entry.when) {
            objects.extend(entry.into_objects());
        }
    }
    Ok(objects)
}

/// The definitions of our kinds.
pub fn definitions() -> [CustomResourceDefinition; 6] {
    [
        api::approval::definition(),
        api::cpu::definition(),
        api::golden::definition(),
        api::placement::definition(),
        api::release::definition(),
        api::advisor::definition(),
    ]
}

/// Everything there can be, filled.
fn entries(fill: &dyn Fill) -> Result<Vec<Entry>, Error> {
    let mut entries = vec![Entry::new(
        Part::Namespace,
        When::Always,
        "operator.yaml",
        vec![namespace(fill)],
    )];
    entries.extend(crds()?);
    entries.extend(rbac::entries(fill)?);
    entries.extend(workloads::entries(fill));
    entries.extend(monitoring::entries(fill));
    Ok(entries)
}

fn namespace(fill: &dyn Fill) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": fill.namespace(),
            "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
        },
    })
}

fn crds() -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for definition in definitions() {
        let file = format!("crds/{}.yaml", definition.spec.names.plural);
        let mut definition = serde_json::to_value(definition)?;
        // Limits are floating-point numbers in Go; nobody writes them so.
        machinery::json::settle_numbers(&mut definition);
        entries.push(Entry::new(Part::Crds, When::Always, file, vec![definition]));
    }
    Ok(entries)
}

/// What marks the objects of a component.
fn labels(name: &str) -> Value {
    json!({ "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "medley" })
}
