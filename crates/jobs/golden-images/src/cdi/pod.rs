//! The pod that imports a DataVolume, and what is seen of it.
//!
//! If the node pulls (`pullMethod: node`), the image is a volume of the pod: the container runtime gets
//! it with the credentials, mirrors and cache of the node, and the importer reads the disk in it.
//!
//! It runs once. What failed is tried again by another pod, which goes on with what the first one
//! left on the volume.

#[cfg(test)]
mod tests;

use api::cdi::DataVolume;
use api::golden::Sniffing;
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod};
use kube_core::Resource as _;
use machinery::names::SUBDOMAIN_MAX;
use serde_json::{Value, json};

use super::data_volume::{Importer, State};
use super::failure::{Failure, Reason};
use super::origin::Origin;
use super::outcome::Outcome;
use crate::action::annotation;
use crate::names::fnv1a;

/// Where the folder of a volume is in the pod.
pub const FOLDER: &str = "/data";
/// The disk in that folder.
pub const DISK: &str = "/data/disk.img";
/// Where the device of a volume is in the pod.
pub const DEVICE: &str = "/dev/cdi-block-volume";
/// Where certificates are in the pod.
pub const CERTIFICATES: &str = "/certs";
/// Where headers that are secret are in the pod: a folder for every secret, with a file for every header.
pub const SECRET_HEADERS: &str = "/extraheaders";
/// Where the image is in the pod, if the node pulls it.
pub const MOUNTED: &str = "/image";
/// Where metrics are, in the pod.
pub const METRICS_PORT: u16 = 8443;

/// How the metric is called that tells how far an import is, in percent.
pub const PROGRESS: &str = "kubevirt_cdi_import_progress_total";

/// Whose label tells which volume a pod imports.
pub const VOLUME_LABEL: &str = "cdi.kubevirt.io/storage.import.importPvcName";
/// Which try it is, as an annotation.
const ATTEMPT: &str = "medley.dev/attempt";
/// The one container.
const CONTAINER: &str = "importer";
/// The image that the node pulls, among the volumes.
const IMAGE: &str = "image";
/// Who owns disks: qemu, in the images of KubeVirt.
const USER: i64 = 107;

/// Names of what the pod is told by its environment.
pub mod environment {
    /// `registry` or `http`.
    pub const SOURCE: &str = "IMPORTER_SOURCE";
    /// The image, or the file.
    pub const ENDPOINT: &str = "IMPORTER_ENDPOINT";
    /// How many bytes the disk may have.
    pub const SIZE: &str = "IMPORTER_IMAGE_SIZE";
    /// Whose import it is, for metrics.
    pub const OWNER: &str = "OWNER_UID";
    /// Whether the registry need not prove who it is.
    pub const INSECURE: &str = "INSECURE_TLS";
    /// Ranges of addresses that may be connected to although they are restricted, separated by commas.
    pub const ALLOWED: &str = "MEDLEY_ALLOW_ADDRESS";
    /// The architecture.
    pub const ARCHITECTURE: &str = "IMPORTER_REGISTRY_IMAGE_ARCHITECTURE";
    /// The folder with certificates.
    pub const CERTIFICATES: &str = "IMPORTER_CERT_DIR";
    /// The name of a user.
    pub const ACCESS_KEY_ID: &str = "IMPORTER_ACCESS_KEY_ID";
    /// The password of that user.
    pub const SECRET_KEY: &str = "IMPORTER_SECRET_KEY";
    /// Credentials as docker keeps them.
    pub const DOCKER_CONFIG: &str = "IMPORTER_DOCKER_CONFIG";
    /// What a file has to be.
    pub const CHECKSUM: &str = "IMPORTER_CHECKSUM";
    /// A header that is sent along to get a file; a number follows.
    pub const HEADER: &str = "IMPORTER_EXTRA_HEADER_";
    /// Who pulls the image: `node`, or this pod.
    pub const PULL_METHOD: &str = "IMPORTER_PULL_METHOD";
    /// The folder with all files of the image, if the node has pulled it.
    pub const MOUNTED: &str = "IMPORTER_MOUNTED_IMAGE";
    /// What is done with disks of other architectures: `Refuse`, `Warn` or `Off`.
    pub const SNIFFING: &str = "IMPORTER_CHECK_ARCHITECTURE";
}

/// What a pod is made of.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// The DataVolume.
    pub volume: &'a DataVolume,
    /// Its claim.
    pub claim: &'a PersistentVolumeClaim,
    /// How many bytes of disk that has room for.
    pub room: Option<u64>,
    /// Which try it is.
    pub attempt: u32,
    /// The architecture that the node must have.
    pub node: Option<&'a str>,
    /// The image of this program.
    pub image: &'a str,
    /// Registries that need not prove who they are.
    pub insecure: &'a [String],
    /// Ranges of addresses that the administrator allows, although they are restricted.
    pub allowed: &'a [String],
    /// What is done with disks of other architectures.
    pub sniffing: Sniffing,
}

/// What the pod of a DataVolume is called.
pub fn name(volume: &str) -> String {
    let name = format!("importer-{volume}");
    if name.len() <= SUBDOMAIN_MAX {
        return name;
    }
    // Names of DataVolumes are ASCII.
    let start = name.get(..SUBDOMAIN_MAX - 9).unwrap_or(&name);
    format!("{start}-{:08x}", fnv1a(volume.as_bytes()))
}

/// The pod that imports a DataVolume.
pub fn pod(making: &Making<'_>, origin: &Origin) -> Value {
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
        "resources": {
            "requests": { "cpu": "100m", "memory": "60M" },
            "limits": { "cpu": "750m", "memory": "600M" },
        },
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
            "ownerReferences": [{
                "apiVersion": DataVolume::api_version(&()),
                "kind": DataVolume::kind(&()),
                "name": meta.name,
                "uid": meta.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// What all pods are that run once, with the rights of nobody: where they may run, and the secret by which
/// a node pulls besides what it knows itself.
pub(super) fn spec(architecture: Option<&str>, secret: Option<&str>) -> Value {
    let mut selector = json!({ "kubernetes.io/os": "linux" });
    if let Some(architecture) = architecture {
        selector["kubernetes.io/arch"] = json!(architecture);
    }
    let secrets = secret.into_iter().map(|name| json!({ "name": name }));
    json!({
        "restartPolicy": "Never",
        "enableServiceLinks": false,
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

/// What every container may not do.
pub(super) fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}

fn environment(making: &Making<'_>, origin: &Origin) -> Value {
    let said = |name: &str, value: &str| json!({ "name": name, "value": value });
    let question = &origin.question;
    let web = question.web.as_ref();
    let source = if web.is_some() { "http" } else { "registry" };
    let uid = making.volume.metadata.uid.as_deref().unwrap_or_default();
    let mut all = vec![
        said(environment::SOURCE, source),
        said(environment::ENDPOINT, &question.url),
        said(environment::OWNER, uid),
        json!({ "name": environment::SNIFFING, "value": making.sniffing }),
    ];
    if let Some(bytes) = making.room {
        all.push(said(environment::SIZE, &bytes.to_string()));
    }
    if let Some(wanted) = &origin.architecture {
        all.push(said(environment::ARCHITECTURE, wanted));
    }
    if origin.by_node.is_some() {
        // How the registry is reached is the node's business.
        all.push(said(environment::PULL_METHOD, "node"));
        all.push(said(environment::MOUNTED, MOUNTED));
        return json!(all);
    }
    if !making.allowed.is_empty() {
        all.push(said(environment::ALLOWED, &making.allowed.join(",")));
    }
    if let Some(checksum) = web.and_then(|it| it.checksum.as_deref()) {
        all.push(said(environment::CHECKSUM, checksum));
    }
    for (place, line) in web.into_iter().flat_map(|it| &it.headers).enumerate() {
        all.push(said(&format!("{}{place}", environment::HEADER), line));
    }
    if host(&question.url).is_some_and(|host| making.insecure.iter().any(|it| it == host)) {
        all.push(said(environment::INSECURE, "true"));
    }
    if let Some(secret) = &question.secret {
        for (name, key) in [
            (environment::ACCESS_KEY_ID, "accessKeyId"),
            (environment::SECRET_KEY, "secretKey"),
            (environment::DOCKER_CONFIG, ".dockerconfigjson"),
        ] {
            all.push(json!({ "name": name, "valueFrom": { "secretKeyRef": {
                "name": secret, "key": key, "optional": true,
            } } }));
        }
    }
    if question.certificates.is_some() {
        all.push(said(environment::CERTIFICATES, CERTIFICATES));
    }
    json!(all)
}

/// The registry of an image, as configurations name it.
pub fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("docker://")?;
    rest.split_once('/').map(|(host, _)| host)
}

/// How far an importer is, in parts of ten thousand, by what its metrics say.
pub fn progress(metrics: &str) -> Option<u16> {
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.starts_with(PROGRESS))?;
    let percent: f64 = line.rsplit(' ').next()?.parse().ok()?;
    let is_percent = (0.0..=100.0).contains(&percent);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to 10000, as was just seen"
    )]
    is_percent.then_some((percent * 100.0) as u16)
}

/// What is seen of the importer in a pod.
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
            let said = ended.message.as_deref().unwrap_or_default();
            Outcome::read(ended.exit_code, said)
        }
        // Evicted, or its node is gone.
        (Some("Succeeded" | "Failed"), None) => {
            let said = [status.reason.as_deref(), status.message.as_deref()];
            let said: Vec<&str> = said.into_iter().flatten().collect();
            let message = format!("the importer's pod failed: {}", said.join(": "));
            State::Failed(Failure::new(Reason::ImportFailed, message))
        }
        (Some("Running"), _) => State::Running(None),
        _ => waiting(pod),
    }
}

/// What a pod that does not run waits for.
fn waiting(pod: &Pod) -> State {
    if let Some(message) = unschedulable(pod) {
        return State::Unschedulable(message);
    }
    stuck(pod).map_or(State::Scheduled, State::Failed)
}

/// Why a pod cannot be scheduled, in the words of the scheduler.
pub(super) fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|it| {
        it.type_ == "PodScheduled"
            && it.status == "False"
            && it.reason.as_deref() == Some("Unschedulable")
    })?;
    Some(condition.message.clone().unwrap_or_default())
}

/// Why a pod does not begin, if it will not by itself soon. What cannot be pulled is an image of the
/// pod or, if it says nothing of that, the one that the pod is about.
pub(super) fn stuck(pod: &Pod) -> Option<Failure> {
    let status = pod.status.as_ref()?;
    let begun = status.init_container_statuses.iter().flatten();
    let mut all = begun.chain(status.container_statuses.iter().flatten());
    all.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        let said = waiting.message.as_deref().unwrap_or_default();
        match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName"
                if is_about(pod, container, said) =>
            {
                let message = format!("failed to pull image: {reason}: {said}");
                Some(Failure::new(Reason::of_pull(said), message))
            }
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "CreateContainerConfigError"
            | "CreateContainerError" => Some(Failure::new(
                Reason::ImportFailed,
                format!("the importer cannot be started: {reason}: {said}"),
            )),
            _ => None,
        }
    })
}

/// Whether a container waits for the image that is imported, and not for that of this program.
fn is_about(pod: &Pod, container: &ContainerStatus, said: &str) -> bool {
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
    mounts && !ours.is_some_and(|ours| said.contains(ours))
}
