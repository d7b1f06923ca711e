use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::json;

use super::step;
use crate::operators::kubevirt::fixtures;
use crate::operators::kubevirt::launcher::Launcher;

fn instance(phase: &str, leaving: bool) -> DynamicObject {
    let mut instance = json!({ "metadata": { "name": "vm" }, "status": { "phase": phase } });
    if leaving {
        instance["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(instance).expect("an instance")
}

fn ready() -> Launcher {
    fixtures::launcher("virt-launcher-vm-1", "n")
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
#[case("", false, None, "Accept")]
#[case("Pending", false, None, "Launch")]
#[case("Pending", false, Some(ready()), "Observe")]
#[case("Scheduling", false, None, "Observe")]
#[case("Running", false, None, "Observe")]
#[case("Failed", false, Some(ready()), "Observe")]
#[case("", true, None, "Observe")]
#[case("Pending", true, None, "Observe")]
#[case("Scheduling", true, Some(ready()), "Clean")]
#[case("Scheduling", true, Some(leaving()), "Observe")]
// From here on virt-handler acts.
#[case("Scheduled", true, Some(ready()), "Observe")]
#[case("Running", true, Some(ready()), "Observe")]
#[case("Succeeded", true, Some(ready()), "Clean")]
#[case("Succeeded", true, Some(leaving()), "Observe")]
fn instance_has_a_launcher_until_it_is_deleted(
    #[case] phase: &str,
    #[case] gone: bool,
    #[case] launcher: Option<Launcher>,
    #[case] expected: &str,
) {
    let launchers: Vec<Launcher> = launcher.into_iter().collect();
    assert_eq!(does(phase, gone, &launchers), expected);
}
