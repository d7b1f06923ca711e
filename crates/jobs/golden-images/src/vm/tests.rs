use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::json;

use super::*;

fn source(name: &str, architecture: Option<&str>, to: Option<&str>) -> (Named, DataSource) {
    let mut object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": name, "namespace": "images", "labels": {} },
        "spec": { "source": {} },
    });
    if let Some(architecture) = architecture {
        object["metadata"]["labels"][labels::ARCHITECTURE] = json!(architecture);
    }
    if let Some(to) = to {
        object["spec"]["source"] = json!({ "dataSource": { "name": to } });
    }
    (
        named("images", name),
        serde_json::from_value(object).unwrap(),
    )
}

fn machine(own: Option<&str>, sources: &[&str], volumes: &[&str]) -> Value {
    let templates = sources.iter().map(|name| {
        json!({
            "metadata": { "name": format!("disk-{name}") },
            "spec": { "sourceRef": { "kind": "datasource", "namespace": "images", "name": name } },
        })
    });
    let volumes = volumes
        .iter()
        .map(|name| json!({ "persistentVolumeClaim": { "claimName": name } }));
    let mut machine = json!({ "spec": {
        "dataVolumeTemplates": templates.collect::<Vec<_>>(),
        "template": { "spec": { "volumes": volumes.collect::<Vec<_>>() } },
    } });
    if let Some(own) = own {
        machine["spec"]["template"]["spec"]["architecture"] = json!(own);
    }
    machine
}

fn decided(machine: &Value) -> Decision {
    let sources: BTreeMap<Named, DataSource> = [
        source("fedora", None, Some("fedora-arm64")),
        source("fedora-arm64", Some("arm64"), None),
        source("fedora-amd64", Some("amd64"), None),
        source("plain", None, None),
        source("odd", Some("vax"), None),
        source("dangling", None, Some("nowhere")),
    ]
    .into();
    let volumes: BTreeMap<Named, &str> = [(named("mine", "s390x-disk"), "s390x")].into();
    decide(&VmInputs {
        machine,
        namespace: "mine",
        sources: &|name| sources.get(name),
        volumes: &|name| volumes.get(name).copied(),
        default: Some("amd64"),
        nodes: &BTreeSet::from(["amd64", "arm64"]),
    })
}

#[rstest]
#[case::by_label(None, &["fedora-amd64"], &[], Some("amd64"), &[])]
#[case::through_a_pointer(None, &["fedora"], &[], Some("arm64"), &[])]
#[case::nothing_known(None, &["plain"], &[], Some("amd64"), &[])]
#[case::the_first_that_is_known(None, &["plain", "fedora"], &[], Some("arm64"), &[])]
#[case::named(Some("arm64"), &["fedora"], &[], None, &[])]
#[case::named_otherwise(Some("amd64"), &["fedora"], &[], None, &[
    "the VM is for amd64, but DataSource images/fedora is for arm64; it will not boot from it"
])]
#[case::two_disks(None, &["fedora-amd64", "fedora"], &[], Some("amd64"), &[
    "the VM is for amd64, but DataSource images/fedora is for arm64; it will not boot from it"
])]
#[case::odd(None, &["odd"], &[], Some("amd64"), &[
    "DataSource images/odd is for \"vax\", which is ignored; amd64, arm64 and s390x are supported"
])]
#[case::missing(None, &["dangling"], &[], Some("amd64"), &[
    "DataSource images/dangling not found; the VM waits for it"
])]
#[case::by_volume(None, &[], &["s390x-disk"], Some("s390x"), &[
    "the VM is for s390x, but no node has this architecture; it stays unscheduled"
])]
#[case::an_existing_machine(Some("amd64"), &[], &["s390x-disk"], None, &[
    "the VM is for amd64, but volume mine/s390x-disk is for s390x; it will not boot from it"
])]
fn vm_gets_architecture_of_its_disk(
    #[case] own: Option<&str>,
    #[case] sources: &[&str],
    #[case] volumes: &[&str],
    #[case] set: Option<&str>,
    #[case] warnings: &[&str],
) {
    let decision = decided(&machine(own, sources, volumes));
    assert_eq!(decision.set.as_deref(), set);
    let messages: Vec<String> = decision.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(messages, warnings);
}

#[test]
fn origin_of_architecture_is_reported() {
    let why = |sources: &[&str]| decided(&machine(None, sources, &[])).why;
    assert_eq!(why(&["fedora"]), Why::DataSource(named("images", "fedora")));
    assert_eq!(why(&[]), Why::Default);
    assert_eq!(decided(&machine(Some("arm64"), &[], &[])).why, Why::Named);
    assert_eq!(decided(&json!(null)).why, Why::Default);
}
