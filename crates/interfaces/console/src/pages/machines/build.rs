//! A virtual machine from what was chosen for it.

use machinery::quantity::Quantity;
use serde_json::{Value, json};

/// No machine has more.
const MOST_CORES: u32 = 512;
/// Names of disks are made of names of machines, and are not longer than this.
const LONGEST: usize = 58;

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) architecture: &'a str,
    /// The DataSource that the disk is a copy of: namespace and name.
    pub(super) image: (&'a str, &'a str),
    pub(super) cores: &'a str,
    pub(super) memory: &'a str,
    /// How large the disk is; as large as the image, if nothing is said.
    pub(super) disk: Option<&'a str>,
    /// The model of the CPU; what KubeVirt has by default, if nothing is said.
    pub(super) model: Option<&'a str>,
    /// The template that the choices came from.
    pub(super) template: Option<&'a str>,
    pub(super) start: bool,
}

/// The machine, or what is wrong with the choice.
pub(super) fn machine(choice: &Choice<'_>) -> Result<Value, String> {
    let name = choice.name;
    if !is_label(name) || name.len() > LONGEST {
        return Err(format!(
            "The name {name:?} cannot be used: up to {LONGEST} small letters, digits and dashes are accepted, beginning and ending with a letter or digit."
        ));
    }
    let cores: u32 = choice.cores.parse().unwrap_or_default();
    if !(1..=MOST_CORES).contains(&cores) {
        return Err(format!(
            "{:?} is no number of cores: 1 to {MOST_CORES} are accepted.",
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
                    // Chosen first, and never guessed: nodes of others cannot run it.
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
            "{given:?} is no size of a {what}: a number with a unit is accepted, such as 2Gi."
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
    fn a_machine_has_the_architecture_that_was_chosen() {
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
    fn what_makes_no_sense_is_said_with_what_would() {
        for (wrong, part) in [
            (
                Choice {
                    name: "Web",
                    ..choice()
                },
                "small letters",
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
            let said = machine(&wrong).unwrap_err();
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}
