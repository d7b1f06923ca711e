//! The importer pod of a DataVolume, and its state.
//!
//! If the node pulls (`pullMethod: node`), the image is a volume of the pod: the container runtime
//! fetches it with the credentials, mirrors and cache of the node, and the importer reads the disk
//! in it.
//!
//! The pod runs once (restartPolicy Never). A retry is another pod, which resumes from what the
//! first one left on the PVC.

#[cfg(test)]
mod tests;

use api::cdi::DataVolume;
use api::golden::Sniffing;
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::names::SUBDOMAIN_MAX;
use serde_json::{Value, json};

use super::data_volume::{Importer, State};
use super::failure::{Failure, Reason};
use super::origin::Origin;
use super::outcome::Outcome;
use crate::action::annotation;
use crate::names::fnv1a;

/// Mount path of a filesystem volume.
pub const FOLDER: &str = "/data";
/// The disk on a filesystem volume.
pub const DISK: &str = "/data/disk.img";
/// Device path of a block volume.
pub const DEVICE: &str = "/dev/cdi-block-volume";
/// Mount path of certificates.
pub const CERTIFICATES: &str = "/certs";
/// Mount path of secret headers: a folder per secret, with a file per header.
pub const SECRET_HEADERS: &str = "/extraheaders";
/// Mount path of the image, if the node pulls it.
pub const MOUNTED: &str = "/image";
/// The port of the importer's metrics.
pub const METRICS_PORT: u16 = 8443;

/// The metric with the progress of an import, in percent.
pub const PROGRESS: &str = "kubevirt_cdi_import_progress_total";

/// Label of an importer pod: the name of its PVC.
pub const VOLUME_LABEL: &str = "cdi.kubevirt.io/storage.import.importPvcName";
/// Annotation of an importer pod: the number of the attempt.
const ATTEMPT: &str = "medley.dev/attempt";
/// The name of the only container.
const CONTAINER: &str = "importer";
/// The name of the image volume.
const IMAGE: &str = "image";
/// The owner of disks: the user qemu in KubeVirt's images.
///
/// `QemuSubGid` in CDI's pkg/common/common.go.
const USER: i64 = 107;

/// Environment variables of the importer pod. Most names are CDI's.
pub mod environment {
    /// `registry` or `http`.
    pub const SOURCE: &str = "IMPORTER_SOURCE";
    /// The URL of the image or file.
    pub const ENDPOINT: &str = "IMPORTER_ENDPOINT";
    /// The capacity for the disk, in bytes.
    pub const SIZE: &str = "IMPORTER_IMAGE_SIZE";
    /// The uid of the DataVolume, as a label of the metrics.
    pub const OWNER: &str = "OWNER_UID";
    /// Whether to skip TLS verification of the registry.
    pub const INSECURE: &str = "INSECURE_TLS";
    /// Address ranges that may be connected to although they are restricted, separated by commas.
    pub const ALLOWED: &str = "MEDLEY_ALLOW_ADDRESS";
    /// The requested architecture.
    pub const ARCHITECTURE: &str = "IMPORTER_REGISTRY_IMAGE_ARCHITECTURE";
    /// The folder with certificates.
    pub const CERTIFICATES: &str = "IMPORTER_CERT_DIR";
    /// The user name.
    pub const ACCESS_KEY_ID: &str = "IMPORTER_ACCESS_KEY_ID";
    /// The password.
    pub const SECRET_KEY: &str = "IMPORTER_SECRET_KEY";
    /// Credentials in docker's format.
    pub const DOCKER_CONFIG: &str = "IMPORTER_DOCKER_CONFIG";
    /// The expected checksum of a file.
    pub const CHECKSUM: &str = "IMPORTER_CHECKSUM";
    /// Prefix of a request header; a number follows.
    pub const HEADER: &str = "IMPORTER_EXTRA_HEADER_";
    /// `node` if the node pulls the image, else unset.
    pub const PULL_METHOD: &str = "IMPORTER_PULL_METHOD";
    /// The mount path of the image, if the node pulls it.
    pub const MOUNTED: &str = "IMPORTER_MOUNTED_IMAGE";
    /// Mirrors, insecure registries and CA certificates of the cluster, as JSON. The proxies are in `http_proxy`,
    /// `https_proxy` and `no_proxy`, as CDI sets them.
    pub const NETWORK: &str = "MEDLEY_NETWORK";
    /// How disks of other architectures are treated: `Refuse`, `Warn` or `Off`.
    pub const SNIFFING: &str = "IMPORTER_CHECK_ARCHITECTURE";
}

/// The inputs of an importer pod.
#[derive(Debug, Clone, Copy)]
pub struct ImporterPodInputs<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// Its PVC.
    pub claim: &'a PersistentVolumeClaim,
    /// The capacity of the PVC for a disk, in bytes.
    pub room: Option<u64>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The architecture that the node must have.
    pub node: Option<&'a str>,
    /// The container image of Medley.
    pub image: &'a str,
    /// Variables for the network of the cluster: [`environment::NETWORK`] and the proxies.
    pub network: &'a [(&'static str, String)],
    /// Registries whose TLS certificates are not verified.
    pub insecure: &'a [String],
    /// Address ranges that the administrator allows although they are restricted.
    pub allowed: &'a [String],
    /// How disks of other architectures are treated.
    pub sniffing: Sniffing,
}

/// The name of the importer pod of a DataVolume.
pub fn name(volume: &str) -> String {
    let name = format!("importer-{volume}");
    if name.len() <= SUBDOMAIN_MAX {
        return name;
    }
    // Object names are ASCII, so slicing by bytes is safe.
    let start = name.get(..SUBDOMAIN_MAX - 9).unwrap_or(&name);
    format!("{start}-{:08x}", fnv1a(volume.as_bytes()))
}

/// The importer pod of a DataVolume.
pub fn pod(making: &ImporterPodInputs<'_>, origin: &Origin) -> Value {
    let meta = &making.volume.metadata;
    let claim = meta.name.as_deref().unwrap_or_default();
    let is_block = making
        .claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_mode.as_deref())
        == Some("Block");
    let mut container = json!({
        "name": CONTAINER,
        "image": making.image,
        "args": ["importer", "--to", if is_block { DEVICE } else { DISK }],
        "env": environment(making, origin),
        "ports": [{ "name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP" }],
        // CDI's defaults (pkg/controller/config-controller.go), so that quotas that were made for
        // its importer fit.
        "resources": {
            "requests": { "cpu": "100m", "memory": "60M" },
            "limits": { "cpu": "750m", "memory": "600M" },
        },
        // If the process is killed before it writes its outcome, the end of the log becomes the
        // message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": restricted(),
    });
    let mut volumes = vec![json!({
        "name": "data", "persistentVolumeClaim": { "claimName": claim },
    })];
    let mut mounts = Vec::new();
    if is_block {
        container["volumeDevices"] = json!([{ "name": "data", "devicePath": DEVICE }]);
    } else {
        mounts.push(json!({ "name": "data", "mountPath": FOLDER }));
    }
    let by_node = origin.by_node.as_deref();
    if let Some(image) = by_node {
        volumes.push(json!({
            "name": IMAGE, "image": { "reference": image, "pullPolicy": "IfNotPresent" },
        }));
        mounts.push(json!({ "name": IMAGE, "mountPath": MOUNTED, "readOnly": true }));
    } else if let Some(map) = &origin.question.certificates {
        volumes.push(json!({ "name": "certificates", "configMap": { "name": map } }));
        mounts.push(json!({ "name": "certificates", "mountPath": CERTIFICATES, "readOnly": true }));
    }
    let web = origin.question.web.as_ref();
    for (place, secret) in web
        .into_iter()
        .flat_map(|it| &it.secret_headers)
        .enumerate()
    {
        let (name, path) = (
            format!("headers-{place}"),
            format!("{SECRET_HEADERS}/{place}"),
        );
        volumes.push(json!({ "name": name, "secret": { "secretName": secret } }));
        mounts.push(json!({ "name": name, "mountPath": path, "readOnly": true }));
    }
    container["volumeMounts"] = json!(mounts);
    let secret = origin.question.secret.as_deref();
    let mut spec = spec(making.node, secret.filter(|_| by_node.is_some()));
    spec["securityContext"]["fsGroup"] = json!(USER);
    spec["containers"] = json!([container]);
    spec["volumes"] = json!(volumes);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(claim),
            "namespace": meta.namespace,
            "labels": {
                "app": "containerized-data-importer",
                "cdi.kubevirt.io": "importer",
                "prometheus.cdi.kubevirt.io": "true",
                VOLUME_LABEL: crate::names::fitting(claim),
            },
            "annotations": { ATTEMPT: making.attempt.to_string() },
            // As in CDI, which looks for a pod of this name and owner and resumes the import with it. Without
            // blockOwnerDeletion: it would need the permission to update finalizers of PVCs.
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": claim,
                "uid": making.claim.metadata.uid,
                "controller": true,
            }],
        },
        "spec": spec,
    })
}

/// Whether a pod imports for a DataVolume: the PVC of the DataVolume controls it. Pods of earlier versions of Medley
/// are controlled by the DataVolume.
pub fn is_of(pod: &Pod, volume: &DataVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    let claim = claim.filter(|claim| super::claim::is_of(claim, volume));
    is_controlled_by(pod, &volume.metadata)
        || claim.is_some_and(|claim| is_controlled_by(pod, &claim.metadata))
}

/// Whether an object controls a pod.
pub fn is_controlled_by(pod: &Pod, owner: &ObjectMeta) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|it| it.controller == Some(true));
    owner.uid.is_some() && owners.any(|it| Some(&it.uid) == owner.uid.as_ref())
}

/// The common spec of run-once pods without privileges: node selector, and the pull secret in
/// addition to the node's own credentials.
pub(super) fn spec(architecture: Option<&str>, secret: Option<&str>) -> Value {
    let mut selector = json!({ "kubernetes.io/os": "linux" });
    if let Some(architecture) = architecture {
        selector["kubernetes.io/arch"] = json!(architecture);
    }
    let secrets = secret.into_iter().map(|name| json!({ "name": name }));
    json!({
        "restartPolicy": "Never",
        "enableServiceLinks": false,
        // The importer parses content that it cannot trust, and calls no API.
        "automountServiceAccountToken": false,
        "imagePullSecrets": secrets.collect::<Vec<_>>(),
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "nodeSelector": selector,
    })
}

/// The security context of every container.
pub(super) fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}

fn environment(making: &ImporterPodInputs<'_>, origin: &Origin) -> Value {
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let question = &origin.question;
    let web = question.web.as_ref();
    let source = if web.is_some() { "http" } else { "registry" };
    let uid = making.volume.metadata.uid.as_deref().unwrap_or_default();
    let mut all = vec![
        variable(environment::SOURCE, source),
        variable(environment::ENDPOINT, &question.url),
        variable(environment::OWNER, uid),
        json!({ "name": environment::SNIFFING, "value": making.sniffing }),
    ];
    if let Some(bytes) = making.room {
        all.push(variable(environment::SIZE, &bytes.to_string()));
    }
    if let Some(wanted) = &origin.architecture {
        all.push(variable(environment::ARCHITECTURE, wanted));
    }
    if origin.by_node.is_some() {
        // The node's configuration determines how the registry is reached.
        all.push(variable(environment::PULL_METHOD, "node"));
        all.push(variable(environment::MOUNTED, MOUNTED));
        return json!(all);
    }
    all.extend(
        making
            .network
            .iter()
            .map(|(name, value)| variable(name, value)),
    );
    if !making.allowed.is_empty() {
        all.push(variable(environment::ALLOWED, &making.allowed.join(",")));
    }
    if let Some(checksum) = web.and_then(|it| it.checksum.as_deref()) {
        all.push(variable(environment::CHECKSUM, checksum));
    }
    for (place, line) in web.into_iter().flat_map(|it| &it.headers).enumerate() {
        all.push(variable(&format!("{}{place}", environment::HEADER), line));
    }
    if host(&question.url).is_some_and(|host| making.insecure.iter().any(|it| it == host)) {
        all.push(variable(environment::INSECURE, "true"));
    }
    if let Some(secret) = &question.secret {
        for (name, key) in [
            (environment::ACCESS_KEY_ID, "accessKeyId"),
            (environment::SECRET_KEY, "secretKey"),
            // CDI accepts the first two keys only; pull secrets of the cluster have this one. All
            // are optional, because a missing key would stop the pod.
            (environment::DOCKER_CONFIG, ".dockerconfigjson"),
        ] {
            all.push(json!({ "name": name, "valueFrom": { "secretKeyRef": {
                "name": secret, "key": key, "optional": true,
            } } }));
        }
    }
    if question.certificates.is_some() {
        all.push(variable(environment::CERTIFICATES, CERTIFICATES));
    }
    json!(all)
}

/// The registry host of an image, as CDI's configuration lists it.
pub fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("docker://")?;
    rest.split_once('/').map(|(host, _)| host)
}

/// The progress in hundredths of a percent, from an importer's metrics.
pub fn progress(metrics: &str) -> Option<u16> {
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.starts_with(PROGRESS))?;
    let percent: f64 = line.rsplit(' ').next()?.parse().ok()?;
    let is_percent = (0.0..=100.0).contains(&percent);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked above to be from 0 to 10000"
    )]
    is_percent.then_some((percent * 100.0) as u16)
}

/// The importer that a pod runs, with its state.
pub fn read(pod: &Pod) -> Importer {
    let attempt = annotation(&pod.metadata, ATTEMPT).and_then(|it| it.parse().ok());
    Importer {
        attempt: attempt.unwrap_or(1),
        state: state(pod),
    }
}

fn state(pod: &Pod) -> State {
    let Some(status) = &pod.status else {
        return State::Scheduled;
    };
    let containers = status.container_statuses.iter().flatten();
    let mut containers = containers.filter(|it| it.name == CONTAINER);
    let ended = containers.find_map(|it: &ContainerStatus| it.state.as_ref()?.terminated.as_ref());
    match (status.phase.as_deref(), ended) {
        (Some("Succeeded" | "Failed"), Some(ended)) => {
            let detail = ended.message.as_deref().unwrap_or_default();
            Outcome::read(ended.exit_code, detail)
        }
        // Evicted, or its node is gone.
        (Some("Succeeded" | "Failed"), None) => {
            let detail = [status.reason.as_deref(), status.message.as_deref()];
            let detail: Vec<&str> = detail.into_iter().flatten().collect();
            let message = format!("importer pod failed: {}", detail.join(": "));
            State::Failed(Failure::new(Reason::ImportFailed, message))
        }
        (Some("Running"), _) => State::Running(None),
        _ => waiting(pod),
    }
}

/// The state of a pod that has not started.
fn waiting(pod: &Pod) -> State {
    if let Some(message) = unschedulable(pod) {
        return State::Unschedulable(message);
    }
    stuck(pod).map_or(State::Scheduled, State::Failed)
}

/// The scheduler's message for an unschedulable pod.
pub(super) fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|it| {
        it.type_ == "PodScheduled"
            && it.status == "False"
            && it.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(condition.message.clone().unwrap_or_default())
}

/// Why a pod cannot start, if it will not recover by itself soon. A pull error concerns the image
/// of a container, or else the imported image.
pub(super) fn stuck(pod: &Pod) -> Option<Failure> {
    let status = pod.status.as_ref()?;
    let begun = status.init_container_statuses.iter().flatten();
    let mut all = begun.chain(status.container_statuses.iter().flatten());
    all.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        let detail = waiting.message.as_deref().unwrap_or_default();
        match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName"
                if concerns_imported_image(pod, container, detail) =>
            {
                let message = format!("failed to pull image: {reason}: {detail}");
                Some(Failure::new(Reason::of_pull(detail), message))
            }
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "CreateContainerConfigError"
            | "CreateContainerError" => Some(Failure::new(
                Reason::ImportFailed,
                format!("cannot start the importer: {reason}: {detail}"),
            )),
            _ => None,
        }
    })
}

/// Whether a container waits for the imported image rather than for Medley's own.
fn concerns_imported_image(pod: &Pod, container: &ContainerStatus, detail: &str) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    if container.name == super::poller::CONTAINER {
        return true;
    }
    let mut volumes = spec.volumes.iter().flatten();
    let mounts = volumes.any(|it| it.image.is_some());
    let mut all = spec.containers.iter();
    let own = all.find(|it| it.name == container.name);
    let ours = own.and_then(|it| it.image.as_deref());
    mounts && !ours.is_some_and(|ours| detail.contains(ours))
}
