//! Expands pools to Node objects.

use std::collections::BTreeMap;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeDaemonEndpoints, NodeRuntimeHandler, NodeSpec,
    NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use machinery::quantity::Quantity as Exact;
use placement::Handler;
use platform::windows::{Isolation, Version};

use super::{Amount, Cpu, Fleet, Pool};
use crate::names;
use crate::operators::node_labels;

/// Capacity of a node whose pool specifies none.
const DEFAULT_CAPACITY: [(&str, &str); 4] = [
    ("cpu", "8"),
    ("ephemeral-storage", "100Gi"),
    ("memory", "32Gi"),
    ("pods", "110"),
];
const KUBELET: &str = "v1.36.2";
const RUNTIME: &str = "containerd://2.2.1";

/// The nodes of a fleet, without addresses: those are assigned at registration.
pub fn expand(fleet: &Fleet) -> Vec<Node> {
    fleet
        .pools
        .iter()
        .flat_map(|pool| (0..pool.count).map(|index| pool_node(pool, index)))
        .collect()
}

fn pool_node(pool: &Pool, index: u32) -> Node {
    let name = format!("{}-{}", pool.prefix(), index + 1);
    let mut annotations = pool.annotations.clone();
    annotations.insert(names::SIMULATED.into(), "true".into());
    annotations.insert(names::POOL.into(), pool.name.clone());
    if let Some(cpu) = &pool.cpu {
        annotations.insert(names::CPU.into(), cpu.to_annotation());
    }
    let capacity = capacity(&pool.capacity);
    let mut node = Node {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels(pool, index)),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: taints(pool),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            allocatable: Some(allocatable(&capacity, &pool.reserved)),
            capacity: Some(capacity),
            ..NodeStatus::default()
        }),
    };
    if !pool.runtime_handlers.is_empty()
        && let Some(status) = &mut node.status
    {
        status.runtime_handlers = Some(handlers(&pool.runtime_handlers));
    }
    complete(&mut node);
    if let Some(info) = node
        .status
        .as_mut()
        .and_then(|status| status.node_info.as_mut())
    {
        let reported = [
            (&mut info.os_image, &pool.os_image),
            (&mut info.kernel_version, &pool.kernel_version),
            (&mut info.container_runtime_version, &pool.container_runtime),
        ];
        for (field, given) in reported {
            if let Some(given) = given {
                given.clone_into(field);
            }
        }
    }
    node
}

/// Fills in the fields that every kubelet reports, from those already set: a node created by hand
/// with little more than a name becomes complete. Does not set addresses.
pub fn complete(node: &mut Node) {
    let name = node.metadata.name.clone().unwrap_or_default();
    let labels = node.metadata.labels.get_or_insert_default();
    let mut label = |key: &str, value: &str| -> String {
        let entry = labels.entry(key.to_owned());
        entry.or_insert_with(|| value.to_owned()).clone()
    };
    let arch = label(names::ARCH, "amd64");
    let os = label(names::OS, "linux");
    label(names::HOSTNAME, &name);
    label("beta.kubernetes.io/arch", &arch);
    label("beta.kubernetes.io/os", &os);
    let build = labels.get(names::WINDOWS_BUILD).cloned();
    let status = node.status.get_or_insert_default();
    if status.capacity.as_ref().is_none_or(BTreeMap::is_empty) {
        status.capacity = Some(capacity(&BTreeMap::new()));
    }
    if status.allocatable.as_ref().is_none_or(BTreeMap::is_empty) {
        status.allocatable.clone_from(&status.capacity);
    }
    status.daemon_endpoints = Some(NodeDaemonEndpoints {
        kubelet_endpoint: Some(DaemonEndpoint { port: 10250 }),
    });
    let known = status.node_info.as_ref();
    if known.is_none_or(|info| info.architecture.is_empty()) {
        status.node_info = Some(system(&name, &arch, &os, build.as_deref()));
        // A copied node reports no handlers where the original kubelet did not: it may support any.
        if status.runtime_handlers.is_none() {
            let usual = usual_handlers(&os, build.as_deref());
            status.runtime_handlers = Some(handlers(&usual));
        }
    }
    if status.images.is_none() {
        status.images = Some(images(&os));
    }
}

/// Runtime handlers as the container runtime reports them: the first is the default and is also
/// listed without a name.
fn handlers(names: &[String]) -> Vec<NodeRuntimeHandler> {
    let unnamed = std::iter::once(String::new());
    let all = unnamed.chain(names.iter().cloned());
    all.map(|name| NodeRuntimeHandler {
        name: Some(name),
        features: None,
    })
    .collect()
}

/// The default handlers of a node: on Windows also one for every LTSC release that the node can run
/// under Hyper-V isolation, as `medley node-config` sets them up.
fn usual_handlers(os: &str, build: Option<&str>) -> Vec<String> {
    if os != "windows" {
        return vec!["runc".to_owned()];
    }
    let mut all = vec![Handler::PROCESS];
    if let Some(host) = build.and_then(Version::parse) {
        let releases = Version::LONG_TERM.map(Version::of_build);
        let able = releases.into_iter().chain([host.release()]);
        let able = able.filter(|image| host.runs(*image, Isolation::HyperV));
        all.extend(able.map(|image| Handler::hyper_v(image.build)));
    }
    let mut names: Vec<String> = all.iter().map(ToString::to_string).collect();
    names.dedup();
    names
}

/// The roles of a node. Operators select nodes by role; the control plane keeps its old name
/// `master` as well.
fn roles(pool: &Pool) -> Vec<&str> {
    let mut roles: Vec<&str> = pool.roles.iter().map(String::as_str).collect();
    if roles.is_empty() {
        roles.push("worker");
    }
    if roles.contains(&"control-plane") && !roles.contains(&"master") {
        roles.push("master");
    }
    roles
}

fn labels(pool: &Pool, index: u32) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut put = |key: String, value: &str| {
        labels.insert(key, value.to_owned());
    };
    put(names::ARCH.into(), &pool.arch);
    put(names::OS.into(), &pool.os);
    if let Some(build) = &pool.windows_build {
        put(names::WINDOWS_BUILD.into(), build);
    }
    for role in roles(pool) {
        put(format!("{}{role}", names::ROLE), "");
    }
    let zone = usize::try_from(index)
        .ok()
        .and_then(|index| pool.zones.get(index % pool.zones.len().max(1)));
    if let Some(zone) = zone {
        put(names::ZONE.into(), zone);
    }
    if let Some(region) = &pool.region {
        put(names::REGION.into(), region);
    }
    // The labels of KubeVirt's node labeller, also where KubeVirt is not simulated.
    if let Some(cpu) = pool.cpu.as_ref().and_then(Cpu::in_full) {
        labels.extend(node_labels(&cpu, &pool.arch));
    }
    // Last, so that the labels of a pool override the derived ones.
    labels.extend(pool.labels.clone());
    labels
}

fn taints(pool: &Pool) -> Option<Vec<Taint>> {
    let taints: Vec<Taint> = pool
        .taints
        .iter()
        .map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
            time_added: None,
        })
        .collect();
    (!taints.is_empty()).then_some(taints)
}

fn capacity(given: &BTreeMap<String, Amount>) -> BTreeMap<String, Quantity> {
    let mut capacity: BTreeMap<String, Quantity> = DEFAULT_CAPACITY
        .map(|(name, value)| (name.to_owned(), Quantity(value.to_owned())))
        .into();
    for (name, amount) in given {
        capacity.insert(name.clone(), Quantity(amount.to_string()));
    }
    capacity
}

fn allocatable(
    capacity: &BTreeMap<String, Quantity>,
    reserved: &BTreeMap<String, Amount>,
) -> BTreeMap<String, Quantity> {
    let left = |name: &String, has: &Quantity| -> Option<Quantity> {
        let kept = Exact::from_str(&reserved.get(name)?.to_string()).ok()?;
        let left = Exact::from_str(&has.0).ok()?.checked_sub(&kept)?;
        (left.sign() >= 0).then(|| Quantity(left.canonical()))
    };
    capacity
        .iter()
        .map(|(name, has)| (name.clone(), left(name, has).unwrap_or_else(|| has.clone())))
        .collect()
}

fn system(name: &str, arch: &str, os: &str, build: Option<&str>) -> NodeSystemInfo {
    let (image, kernel) = match (os, build) {
        ("windows", build) => {
            let build = build.unwrap_or("10.0.20348");
            let edition = match build {
                "10.0.17763" => "Windows Server 2019 Datacenter",
                "10.0.20348" => "Windows Server 2022 Datacenter",
                "10.0.26100" => "Windows Server 2025 Datacenter",
                _ => "Windows Server Datacenter",
            };
            // The build and its update revision.
            (edition.to_owned(), format!("{build}.4171"))
        }
        _ => (
            "Debian GNU/Linux 13 (trixie)".to_owned(),
            format!(
                "6.12.57+deb13-{}",
                if arch == "arm64" { "arm64" } else { arch }
            ),
        ),
    };
    let id = format!("{:032x}", crate::hash::of(name.as_bytes()));
    NodeSystemInfo {
        architecture: arch.to_owned(),
        boot_id: uuid_like(&id, 1),
        container_runtime_version: RUNTIME.to_owned(),
        kernel_version: kernel,
        kube_proxy_version: String::new(),
        kubelet_version: KUBELET.to_owned(),
        operating_system: os.to_owned(),
        os_image: image,
        system_uuid: uuid_like(&id, 2),
        machine_id: id,
        swap: None,
    }
}

/// An identifier in the form of a UUID, derived from another.
fn uuid_like(id: &str, salt: u8) -> String {
    let digits = format!("{:032x}", crate::hash::of(format!("{id}{salt}").as_bytes()));
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().to_owned();
    [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-")
}

fn images(os: &str) -> Vec<ContainerImage> {
    let names: &[(&str, i64)] = match os {
        "windows" => &[("mcr.microsoft.com/oss/kubernetes/pause:3.10.1", 122_000_000)],
        _ => &[("registry.k8s.io/pause:3.10.1", 320_000)],
    };
    names
        .iter()
        .map(|(name, size)| ContainerImage {
            names: Some(vec![(*name).to_owned()]),
            size_bytes: Some(*size),
        })
        .collect()
}
