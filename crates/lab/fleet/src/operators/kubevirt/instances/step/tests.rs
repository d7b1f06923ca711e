use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::json;

use super::{InstanceStep, step};
use crate::operators::kubevirt::fixtures;
use crate::operators::kubevirt::launcher::Launcher;

fn instance(phase: &str, leaving: bool) -> DynamicObject {
    let mut instance = json!({ "metadata": { "name": "vm" }, "status": { "phase": phase } });
    if leaving {
        instance["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(instance).expect("an instance")
}

fn launcher() -> Launcher {
    Launcher {
        ready: false,
        phase: "Pending".into(),
        ..fixtures::launcher("virt-launcher-vm-1", "")
    }
}

fn ready() -> Launcher {
    fixtures::launcher("virt-launcher-vm-1", "n")
}

fn down() -> Launcher {
    Launcher {
        phase: "Failed".into(),
        node: "n".into(),
        ..launcher()
    }
}

fn leaving() -> Launcher {
    Launcher {
        leaving: true,
        ..ready()
    }
}

/// Name of the next action.
fn does(phase: &str, gone: bool, launchers: &[Launcher]) -> String {
    let instance = instance(phase, gone);
    let step = format!("{:?}", step(&instance, launchers));
    step.split('(').next().unwrap_or_default().to_owned()
}

#[rstest]
#[case("", None, "Accept")]
#[case("Pending", None, "Launch")]
#[case("Pending", Some(launcher()), "Begin")]
#[case("Pending", Some(down()), "Fail")]
#[case("Scheduling", None, "Fail")]
#[case("Scheduling", Some(launcher()), "Nothing")]
#[case("Scheduling", Some(Launcher { unschedulable: Some("0/3".into()), ..launcher() }), "Wait")]
#[case("Scheduling", Some(Launcher { node: "n".into(), ..launcher() }), "Nothing")]
#[case("Scheduling", Some(ready()), "HandOver")]
#[case("Scheduling", Some(down()), "Fail")]
#[case("Scheduling", Some(leaving()), "Fail")]
// From here on virt-handler acts.
#[case("Scheduled", Some(ready()), "Nothing")]
#[case("Running", Some(down()), "Nothing")]
#[case("Running", None, "Nothing")]
#[case("Failed", Some(down()), "Clean")]
#[case("Succeeded", Some(leaving()), "Nothing")]
#[case("Succeeded", None, "Nothing")]
fn instance_advances_through_its_phases(
    #[case] phase: &str,
    #[case] launcher: Option<Launcher>,
    #[case] expected: &str,
) {
    let launchers: Vec<Launcher> = launcher.into_iter().collect();
    assert_eq!(does(phase, false, &launchers), expected);
}

#[rstest]
#[case("", None, "Release")]
#[case("Pending", None, "Release")]
#[case("Scheduling", Some(launcher()), "Clean")]
#[case("Scheduling", Some(leaving()), "Nothing")]
#[case("Scheduled", Some(ready()), "Nothing")]
#[case("Running", Some(ready()), "Nothing")]
#[case("Succeeded", Some(ready()), "Clean")]
#[case("Succeeded", Some(leaving()), "Nothing")]
#[case("Failed", None, "Release")]
fn deleted_instance_deletes_its_pods(
    #[case] phase: &str,
    #[case] launcher: Option<Launcher>,
    #[case] expected: &str,
) {
    let launchers: Vec<Launcher> = launcher.into_iter().collect();
    assert_eq!(does(phase, true, &launchers), expected);
}

#[test]
fn migration_target_is_not_the_first_launcher() {
    let target = Launcher {
        migration: Some("m".into()),
        ..ready()
    };
    assert_eq!(
        step(&instance("Pending", false), &[target]),
        InstanceStep::Launch
    );
}
