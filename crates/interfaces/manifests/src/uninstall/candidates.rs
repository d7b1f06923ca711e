//! The objects that an installation may consist of, whatever its options were.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ObjectRef;
use crate::{
    AUTHORITY, CONSOLE_KEYS, Error, Job, LEASE, NAMED_SECRETS, Options, PullSecrets, objects, rbac,
};

/// What may be installed in a namespace, with its cluster-scoped objects, and what a running Medley creates. Roles of
/// [`NAMED_SECRETS`] are not included, because they are in the namespaces that the options named.
pub fn candidates(namespace: &str) -> Result<Vec<ObjectRef>, Error> {
    let options = Options {
        namespace: namespace.to_owned(),
        jobs: Job::ALL.iter().copied().collect(),
        profiles: rbac::optional_profiles()?
            .into_iter()
            .map(str::to_owned)
            .collect(),
        release_owner: true,
        release_payloads: true,
        openshift_config: true,
        openshift: true,
        pull_secrets: PullSecrets::Pods,
        console: true,
        // Any name: only the objects' own names matter.
        console_hosts: vec!["console".to_owned()],
        monitoring: true,
        // Any variable, as with the host name.
        environment: [("NAME".to_owned(), String::new())].into(),
        ..Options::default()
    };
    let installed = objects(&options)?.into_iter().map(|object| object.value);
    let created = created(namespace).into_iter();
    // The Service of the webhook, for example, is one object, whatever refers to it.
    let all: BTreeSet<ObjectRef> = installed
        .chain(created)
        .map(|value| ObjectRef::of(&value))
        .filter(|object| object.name != NAMED_SECRETS)
        .collect();
    Ok(all.into_iter().collect())
}

/// What the programs create themselves.
fn created(namespace: &str) -> Vec<Value> {
    let object = |version: &str, kind: &str, name: &str| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name, "namespace": namespace } });
    let registration = |name: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": name },
        })
    };
    vec![
        registration(api::advisor::WEBHOOK),
        registration(api::cpu::WEBHOOK),
        registration(api::golden::WEBHOOK),
        registration(api::placement::WEBHOOK),
        object("v1", "Secret", AUTHORITY),
        object("v1", "Secret", CONSOLE_KEYS),
        object("v1", "ConfigMap", governance::recorder::AUTHORITY),
        object("coordination.k8s.io/v1", "Lease", LEASE),
        object("coordination.k8s.io/v1", "Lease", api::published::LEASE),
        object("coordination.k8s.io/v1", "Lease", placement::LEASE),
    ]
}
