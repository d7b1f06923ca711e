//! An installation of Medley as objects: one description, options in, objects out.
//!
//! ```text
//! Options --objects--> the objects, in the order of creation
//!            files---> the same as files: plain, for kustomize, Helm, OLM and krew
//! state  ---uninstall::plan--> the steps that remove an installation
//! ```
//!
//! Everything is described once, in entries: objects, the [`Part`] they belong to, and their
//! condition. `medley manifests` keeps the entries whose condition holds for the options; a Helm
//! chart has all of them, with the conditions as templates. RBAC rules come from [`Job::rules`], and
//! so from the declarations of each job and each governance profile.

mod dashboards;
mod entry;
mod files;
mod job;
mod monitoring;
mod openshift;
mod options;
mod rbac;
pub mod uninstall;
mod workloads;

#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

pub use dashboards::DASHBOARDS;
pub use entry::{Object, Part};
pub use files::{BEGIN as FILE, files};
pub use job::Job;
pub use openshift::{IMPORTER_CONSTRAINTS, IMPORTER_ROLE, PROMETHEUS};
pub use options::{ConsoleOidc, Error, Options, PullSecrets};
pub use rbac::{callers_role, job_role, profile_role, pull_secret_role, user_roles, webhook_role};

use entry::{Entry, Fill, When};

/// The default namespace of an installation.
pub const NAMESPACE: &str = "medley-system";
/// The service account of the controllers, and their Deployment.
pub const ACCOUNT: &str = "medley-operator";
/// The service account of the admission webhooks, their Deployment and their Service.
pub const WEBHOOK: &str = "medley-webhook";
/// The Secret with the CAs that sign the certificates of the admission webhooks.
pub const AUTHORITY: &str = "medley-webhook-authority";
/// The namespace of [`CALLERS`].
pub const CALLERS_NAMESPACE: &str = "kube-system";
/// The ConfigMap in which kube-apiserver publishes the CAs of client certificates.
pub const CALLERS: &str = "extension-apiserver-authentication";
/// The optional Secret with environment variables of the controllers and the admission webhooks.
pub const ENVIRONMENT: &str = "medley-environment";
/// The optional ConfigMap with CA certificates that the controllers and the admission webhooks trust, one file for each key.
pub const TRUSTED_CA: &str = "medley-trusted-ca";
/// The Service of the console.
pub const CONSOLE: &str = "medley-console";
/// The Secret with the keys of the console's sessions, which its replicas create.
pub const CONSOLE_KEYS: &str = "medley-console-keys";
/// The Secret with the certificate of the console: `tls.crt` and `tls.key`.
pub const CONSOLE_TLS: &str = "medley-console-tls";
/// The Secret with the `client-secret` of the console at its OpenID Connect provider, and optionally
/// the provider's `ca.crt`.
pub const CONSOLE_OIDC: &str = "medley-console-oidc";
/// The leader election lease.
pub const LEASE: &str = "medley";
/// The role of the controllers where they manage the ClusterVersion.
pub const RELEASE_OWNER: &str = "medley-operator-release-owner";
/// The role of the controllers where releases are kept as ConfigMaps, in that namespace.
pub const RELEASE_PAYLOADS: &str = "medley-operator-release-payloads";
/// The role of the controllers and webhooks in OpenShift's namespace of certificates for proxies and registries.
pub const OPENSHIFT_CONFIG: &str = "medley-openshift-config";
/// The role of the controllers and webhooks in a namespace of pull secrets named in policies.
pub const NAMED_SECRETS: &str = "medley-pull-secrets";
/// The role of the webhooks for the Lease of the placement controller.
pub const PLACEMENT_LEASE: &str = "medley-webhook-placement-lease";
/// The version of Medley.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Repository of Medley's images.
pub const REPOSITORY: &str = "ghcr.io/medley-dev/medley";
/// The image of this version.
pub const IMAGE: &str = concat!("ghcr.io/medley-dev/medley:", env!("CARGO_PKG_VERSION"));
/// The image of this version that `oc adm must-gather` runs: with a shell and tar, which the product's image lacks.
pub const MUST_GATHER_IMAGE: &str = concat!(
    "ghcr.io/medley-dev/medley-must-gather:",
    env!("CARGO_PKG_VERSION")
);
/// Source and documentation of Medley.
pub const HOME: &str = "https://github.com/medley-dev/medley";
/// The oldest supported Kubernetes: match conditions of webhooks and scheduling gates are stable
/// from here on.
pub const OLDEST_KUBERNETES: (u32, u32) = (1, 30);

/// The objects of an installation, in the order of creation: namespace and CRDs first.
pub fn objects(options: &Options) -> Result<Vec<Object>, Error> {
    options.validate()?;
    let mut objects = Vec::new();
    for entry in entries(&options.fill())? {
        if entry.part == Part::Monitoring && !options.monitoring {
            continue;
        }
        if options.has(&entry.when) {
            objects.extend(entry.into_objects());
        }
    }
    Ok(objects)
}

/// The CRDs of Medley.
pub fn definitions() -> [CustomResourceDefinition; 7] {
    [
        api::approval::definition(),
        api::cpu::definition(),
        api::golden::definition(),
        api::placement::definition(),
        api::profile::definition(),
        api::release::definition(),
        api::advisor::definition(),
    ]
}

/// All entries, filled.
fn entries(fill: &Fill) -> Result<Vec<Entry>, Error> {
    let mut entries = vec![Entry::new(
        Part::Namespace,
        When::Always,
        "operator.yaml",
        vec![namespace(fill)],
    )];
    entries.extend(crds()?);
    entries.extend(rbac::entries(fill)?);
    entries.extend(workloads::entries(fill));
    entries.extend(openshift::entries(fill)?);
    entries.extend(monitoring::entries(fill));
    // Parts in their order, whatever module describes an object.
    entries.sort_by_key(|entry| entry.part);
    Ok(entries)
}

fn namespace(fill: &Fill) -> Value {
    let mut metadata = json!({
        "name": fill.namespace,
        "labels": {
            // Tells `medley uninstall` that the namespace came with Medley.
            PART_OF: MEDLEY,
            "pod-security.kubernetes.io/enforce": "restricted",
        },
    });
    openshift::mark_namespace(fill, &mut metadata);
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

fn crds() -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for definition in definitions() {
        let file = format!("crds/{}.yaml", definition.spec.names.plural);
        let mut definition = serde_json::to_value(definition)?;
        // Number limits are floating-point in Go; they are written as integers.
        machinery::json::settle_numbers(&mut definition);
        entries.push(Entry::new(Part::Crds, When::Always, file, vec![definition]));
    }
    Ok(entries)
}

/// The plural of a kind that an installation has, as in the path of requests.
pub fn plural(kind: &str) -> String {
    // Not from discovery: before an installation the cluster does not serve Medley's own kinds.
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => lower,
        None => format!("{lower}s"),
    }
}

/// Labels of the objects of a component.
fn labels(name: &str) -> Value {
    json!({ "app.kubernetes.io/name": name, PART_OF: MEDLEY })
}

/// Label of the objects of an installation: the application that they belong to.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";
/// Its value.
pub(crate) const MEDLEY: &str = "medley";
