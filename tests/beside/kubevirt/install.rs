//! What virt-operator would create around KubeVirt's programs: its object, accounts, certificates, and the registration
//! of virt-api at the API server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use apiserver::kubeconfig;
use apiserver::pki::{Authority, Identity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::Patch;
use serde_json::{Value, json};
use testkit::{by, install_peer_crds};

use crate::fixture::GenuineCluster;

pub(crate) const NAMESPACE: &str = "kubevirt";
/// The account of virt-api. virt-api lets only the accounts of its own namespace change the spec and the status of a
/// VirtualMachineInstance (`pkg/virt-api/webhooks/serviceaccounts.go`).
pub(crate) const API_ACCOUNT: &str = "kubevirt-apiserver";
pub(crate) const CONTROLLER_ACCOUNT: &str = "kubevirt-controller";
pub(crate) const HANDLER_ACCOUNT: &str = "kubevirt-handler";

const KINDS: [&str; 3] = [
    "virtualmachines",
    "virtualmachineinstances",
    "virtualmachineinstancemigrations",
];

/// The webhooks of virt-api for the kinds of the stories: plural, operations and path. virt-operator registers more
/// (`pkg/virt-operator/resource/generate/components/webhooks.go`).
const MUTATING: [(&str, &[&str], &str); 3] = [
    (KINDS[0], &["CREATE", "UPDATE"], "/virtualmachines-mutate"),
    (
        KINDS[1],
        &["CREATE", "UPDATE"],
        "/virtualmachineinstances-mutate",
    ),
    (KINDS[2], &["CREATE"], "/migration-mutate-create"),
];
const VALIDATING: [(&str, &[&str], &str); 7] = [
    (KINDS[0], &["CREATE", "UPDATE"], "/virtualmachines-validate"),
    (
        KINDS[1],
        &["CREATE"],
        "/virtualmachineinstances-validate-create",
    ),
    (
        KINDS[1],
        &["UPDATE"],
        "/virtualmachineinstances-validate-update",
    ),
    (KINDS[2], &["CREATE"], "/migration-validate-create"),
    (KINDS[2], &["UPDATE"], "/migration-validate-update"),
    (
        "virtualmachines/status",
        &["CREATE", "UPDATE"],
        "/status-validate",
    ),
    (
        "virtualmachineinstancemigrations/status",
        &["CREATE", "UPDATE"],
        "/status-validate",
    ),
];

/// The user name of an account of KubeVirt.
pub(crate) fn user(account: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{account}")
}

/// KubeVirt's CRDs, its object, and the permissions of its accounts.
pub(crate) async fn install(beside: &GenuineCluster) -> anyhow::Result<()> {
    install_peer_crds(&beside.cluster, "kubevirt").await?;
    beside
        .apply(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        )
        .await?;
    for account in [API_ACCOUNT, CONTROLLER_ACCOUNT, HANDLER_ACCOUNT] {
        beside
            .apply(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": account },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(account) }],
            }))
            .await?;
    }
    beside
        .apply(json!({ "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} }))
        .await?;
    // Without a phase KubeVirt's programs ignore the object, and without an architecture they reject VMs that have none.
    let deployed = json!({ "status": { "phase": "Deployed", "defaultArchitecture": "amd64" } });
    beside
        .objects("kubevirt.io/v1", "KubeVirt", Some(NAMESPACE))
        .patch_status("kubevirt", &by("virt-operator"), &Patch::Merge(deployed))
        .await?;
    Ok(())
}

/// The files of a program of KubeVirt: a kubeconfig of its account, and a serving certificate.
pub(crate) struct Files {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Certificates that virt-operator would rotate.
pub(crate) struct Certificates(Authority);

impl Certificates {
    pub(crate) fn generate() -> anyhow::Result<Self> {
        Ok(Self(Authority::generate()?))
    }

    /// Writes the files of a program into a folder of its own: KubeVirt's programs watch the folder of their
    /// certificates, and would read them again for each line that they log beside them.
    pub(crate) fn write(&self, beside: &GenuineCluster, account: &str) -> anyhow::Result<Files> {
        let folder = beside.served.folder().join(format!("{account}-files"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        let names = ["127.0.0.1".to_owned(), format!("virt-api.{NAMESPACE}.svc")];
        let serving = self.0.server(&names)?;
        let (certificate, key) = beside.cluster.client_certificate(&user(account))?;
        let client = Identity { certificate, key };
        let text = kubeconfig::kubeconfig(&beside.served.url, beside.cluster.root_ca(), &client);
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Files {
            kubeconfig: write("kubeconfig", &text)?,
            certificate: write("tls.crt", &serving.certificate)?,
            key: write("tls.key", &serving.key)?,
        })
    }

    /// Registers virt-api, which listens on this port, for webhooks and KubeVirt's subresources.
    pub(crate) async fn register(&self, beside: &GenuineCluster, port: u16) -> anyhow::Result<()> {
        // A service without endpoints: the API server connects to its name.
        beside
            .apply(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": "virt-api", "namespace": NAMESPACE },
                "spec": { "type": "ExternalName", "externalName": "127.0.0.1" },
            }))
            .await?;
        let authority = STANDARD.encode(self.0.certificate());
        beside
            .apply(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "kubevirt-ca", "namespace": NAMESPACE },
                "data": { "ca-bundle": self.0.certificate() },
            }))
            .await?;
        beside
            .apply(json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": { "name": "v1.subresources.kubevirt.io" },
                "spec": {
                    "group": "subresources.kubevirt.io", "version": "v1",
                    "groupPriorityMinimum": 1000, "versionPriority": 15, "caBundle": authority,
                    "service": { "namespace": NAMESPACE, "name": "virt-api", "port": port },
                },
            }))
            .await?;
        let webhook = |index: usize, (plural, operations, path): (&str, &[&str], &str)| -> Value {
            json!({
                "name": format!("virt-api-{index}.kubevirt.io"),
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "rules": [{
                    "apiGroups": ["kubevirt.io"], "apiVersions": ["v1alpha3", "v1"],
                    "resources": [plural], "operations": operations,
                }],
                "clientConfig": { "caBundle": authority, "service": {
                    "namespace": NAMESPACE, "name": "virt-api", "path": path, "port": port,
                } },
            })
        };
        for (kind, name, webhooks) in [
            (
                "MutatingWebhookConfiguration",
                "virt-api-mutator",
                &MUTATING[..],
            ),
            (
                "ValidatingWebhookConfiguration",
                "virt-api-validator",
                &VALIDATING[..],
            ),
        ] {
            let webhooks = webhooks.iter().enumerate();
            let webhooks: Vec<Value> = webhooks.map(|(at, one)| webhook(at, *one)).collect();
            beside
                .apply(json!({
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                    "metadata": { "name": name }, "webhooks": webhooks,
                }))
                .await?;
        }
        Ok(())
    }
}

/// The arguments of a program that serves with these files.
pub(crate) fn serving(files: &Files, port: u16, certificate: &str, key: &str) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    vec![
        format!("--kubeconfig={}", path(&files.kubeconfig)),
        "--listen=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--{certificate}={}", path(&files.certificate)),
        format!("--{key}={}", path(&files.key)),
    ]
}
