//! Builds a VirtualMachine from the fields of the wizard.

use machinery::quantity::Quantity;
use serde_json::{Value, json};

/// Limit of CPU cores.
const MAX_CORES: u32 = 512;
/// Length limit of VM names: names of disks are derived from them, and are limited to 63
/// characters.
const MAX_NAME_LENGTH: usize = 58;

/// The fields of the wizard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) architecture: &'a str,
    /// The DataSource that the disk is cloned from: namespace and name.
    pub(super) image: (&'a str, &'a str),
    pub(super) cores: &'a str,
    pub(super) memory: &'a str,
    /// Size of the disk; that of the image by default.
    pub(super) disk: Option<&'a str>,
    /// CPU model; KubeVirt's default if not set.
    pub(super) model: Option<&'a str>,
    /// The template that the values came from.
    pub(super) template: Option<&'a str>,
    pub(super) start: bool,
}

/// The VirtualMachine, or why the fields are invalid.
pub(super) fn machine(choice: &Choice<'_>) -> Result<Value, String> {
    let name = choice.name;
    if !is_label(name) || name.len() > MAX_NAME_LENGTH {
        return Err(format!(
            "The name {name:?} is invalid: use up to {MAX_NAME_LENGTH} lowercase letters, digits and dashes, beginning and ending with a letter or digit."
        ));
    }
    let cores: u32 = choice.cores.parse().unwrap_or_default();
    if !(1..=MAX_CORES).contains(&cores) {
        return Err(format!(
            "{:?} is not a number of cores: use 1 to {MAX_CORES}.",
            choice.cores
        ));
    }
    size("memory", choice.memory)?;
    if let Some(disk) = choice.disk {
        size("disk", disk)?;
    }
    let disk = format!("{name}-disk");
    let mut storage = json!({});
    if let Some(size) = choice.disk {
        storage = json!({ "resources": { "requests": { "storage": size } } });
    }
    let mut cpu = json!({ "cores": cores });
    if let Some(model) = choice.model {
        cpu["model"] = model.into();
    }
    let mut labels = json!({ "app.kubernetes.io/name": name });
    if let Some(template) = choice.template {
        labels["vm.kubevirt.io/template"] = template.into();
    }
    let (image_namespace, image) = choice.image;
    Ok(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": choice.namespace, "labels": labels },
        "spec": {
            "runStrategy": if choice.start { "Always" } else { "Halted" },
            "dataVolumeTemplates": [{
                "metadata": { "name": disk },
                "spec": {
                    "sourceRef": { "kind": "DataSource", "namespace": image_namespace, "name": image },
                    "storage": storage,
                },
            }],
            "template": {
                "metadata": { "labels": { "kubevirt.io/domain": name } },
                "spec": {
                    // Always set explicitly: nodes of other architectures cannot run it.
                    "architecture": choice.architecture,
                    "domain": {
                        "cpu": cpu,
                        "memory": { "guest": choice.memory },
                        "devices": {
                            "disks": [{ "name": "root", "disk": { "bus": "virtio" } }],
                            "interfaces": [{ "name": "default", "masquerade": {} }],
                            "rng": {},
                        },
                    },
                    "networks": [{ "name": "default", "pod": {} }],
                    "volumes": [{ "name": "root", "dataVolume": { "name": disk } }],
                },
            },
        },
    }))
}

fn size(what: &str, given: &str) -> Result<(), String> {
    match given.parse::<Quantity>() {
        Ok(size) if size.value() > 0 => Ok(()),
        _ => Err(format!(
            "{given:?} is not a size of a {what}: use a number with a unit, such as 2Gi."
        )),
    }
}

fn is_label(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(plain) && name.ends_with(plain) && name.chars().all(|c| plain(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice<'static> {
        Choice {
            name: "web-0",
            namespace: "shop",
            architecture: "arm64",
            image: ("kubevirt-os-images", "fedora-arm64"),
            cores: "2",
            memory: "4Gi",
            disk: None,
            model: None,
            template: None,
            start: true,
        }
    }

    #[test]
    fn vm_has_the_chosen_architecture() {
        let made = machine(&choice()).unwrap();
        let spec = &made["spec"]["template"]["spec"];
        assert_eq!(spec["architecture"], "arm64");
        assert_eq!(spec["domain"]["cpu"], json!({ "cores": 2 }));
        let disk = &made["spec"]["dataVolumeTemplates"][0];
        assert_eq!(disk["spec"]["sourceRef"]["name"], "fedora-arm64");
        assert_eq!(disk["spec"]["storage"], json!({}));
        assert_eq!(made["spec"]["runStrategy"], "Always");
        let made = machine(&Choice {
            disk: Some("40Gi"),
            model: Some("best-match-model"),
            start: false,
            ..choice()
        });
        let made = made.unwrap();
        let disk = &made["spec"]["dataVolumeTemplates"][0];
        assert_eq!(
            disk["spec"]["storage"]["resources"]["requests"]["storage"],
            "40Gi"
        );
        assert_eq!(made["spec"]["runStrategy"], "Halted");
    }

    #[test]
    fn errors_name_the_accepted_values() {
        for (wrong, part) in [
            (
                Choice {
                    name: "Web",
                    ..choice()
                },
                "lowercase letters",
            ),
            (
                Choice {
                    name: "-a",
                    ..choice()
                },
                "\"-a\"",
            ),
            (
                Choice {
                    cores: "0",
                    ..choice()
                },
                "1 to 512",
            ),
            (
                Choice {
                    cores: "many",
                    ..choice()
                },
                "\"many\"",
            ),
            (
                Choice {
                    memory: "lots",
                    ..choice()
                },
                "2Gi",
            ),
            (
                Choice {
                    disk: Some("-1Gi"),
                    ..choice()
                },
                "disk",
            ),
        ] {
            let message = machine(&wrong).unwrap_err();
            assert!(message.contains(part), "{part} in {message}");
        }
    }
}
