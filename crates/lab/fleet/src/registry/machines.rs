//! Virtual machine templates for the demo images: one for every architecture of an image, as
//! KubeVirt's common templates are.

use serde_json::{Value, json};

use super::catalog::{Architecture, IMAGES, Image};
use crate::operators::names::BOOT_IMAGE_NAMESPACE;

/// The template version.
const VERSION: &str = "v0.1.0";
/// Images with templates. The others are imported, too, for use without a template.
const IMAGES_WITH_TEMPLATES: [&str; 3] = ["centos-stream9", "fedora", "opensuse-leap"];

/// All templates, by name. They name the DataSource without an architecture suffix; the user sets
/// the architecture when processing them.
pub fn machine_templates() -> Vec<Value> {
    let images = IMAGES
        .iter()
        .filter(|image| IMAGES_WITH_TEMPLATES.contains(&image.name));
    let mut all: Vec<Value> = images
        .flat_map(|image| {
            let architectures = image.architectures.iter();
            architectures.map(|architecture| template(image, *architecture))
        })
        .collect();
    all.sort_by_cached_key(|it| it["metadata"]["name"].to_string());
    all
}

fn template(image: &Image, architecture: Architecture) -> Value {
    let mut name = format!("{}-server-small", image.name);
    // amd64 names have no suffix, as in KubeVirt's templates from before multi-architecture
    // support.
    if architecture != Architecture::Amd64 {
        name = format!("{name}-{architecture}");
    }
    let os = image.name;
    json!({
        "apiVersion": "template.openshift.io/v1",
        "kind": "Template",
        "metadata": {
            "name": name,
            "annotations": {
                "description": format!("A small virtual machine with {os} for {architecture}"),
                "openshift.io/display-name": format!("{os} ({architecture})"),
            },
            "labels": {
                format!("os.template.kubevirt.io/{os}"): "true",
                "flavor.template.kubevirt.io/small": "true",
                "workload.template.kubevirt.io/server": "true",
                "template.kubevirt.io/type": "base",
                "template.kubevirt.io/version": VERSION,
                "template.kubevirt.io/architecture": architecture.name(),
            },
        },
        "objects": [machine(image, architecture, &name)],
        "parameters": [
            {
                "name": "NAME",
                "description": "Name of the virtual machine",
                "generate": "expression",
                "from": format!("{os}-[a-z0-9]{{16}}"),
            },
            {
                "name": "DATA_SOURCE_NAME",
                "description": "Name of the DataSource to start from",
                "value": os,
            },
            {
                "name": "DATA_SOURCE_NAMESPACE",
                "description": "Namespace of the DataSource",
                "value": BOOT_IMAGE_NAMESPACE,
            },
        ],
    })
}

fn machine(image: &Image, architecture: Architecture, template: &str) -> Value {
    let mut domain = json!({
        "cpu": { "cores": 1, "sockets": 1, "threads": 1 },
        "memory": { "guest": "2Gi" },
        "devices": {
            "disks": [{ "name": "rootdisk", "disk": { "bus": "virtio" } }],
            "interfaces": [{ "name": "default", "masquerade": {}, "model": "virtio" }],
            "rng": {},
        },
    });
    if architecture.firmware().is_some() {
        domain["firmware"] = json!({ "bootloader": { "efi": { "secureBoot": false } } });
    }
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "name": "${NAME}",
            "labels": {
                "app": "${NAME}",
                "vm.kubevirt.io/template": template,
                "vm.kubevirt.io/template.architecture": architecture.name(),
            },
        },
        "spec": {
            "runStrategy": "Halted",
            "dataVolumeTemplates": [{
                "apiVersion": "cdi.kubevirt.io/v1beta1",
                "kind": "DataVolume",
                "metadata": { "name": "${NAME}" },
                "spec": {
                    "sourceRef": {
                        "kind": "DataSource",
                        "name": "${DATA_SOURCE_NAME}",
                        "namespace": "${DATA_SOURCE_NAMESPACE}",
                    },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                },
            }],
            "template": {
                "metadata": {
                    "annotations": { "vm.kubevirt.io/os": image.name },
                    "labels": { "kubevirt.io/domain": "${NAME}" },
                },
                "spec": {
                    "architecture": architecture.name(),
                    "domain": domain,
                    "networks": [{ "name": "default", "pod": {} }],
                    "terminationGracePeriodSeconds": 180,
                    "volumes": [{ "name": "rootdisk", "dataVolume": { "name": "${NAME}" } }],
                },
            },
        },
    })
}
