use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::{Value, json};

use super::observed;
use crate::operators::kubevirt::fixtures::{launcher, object};
use crate::operators::kubevirt::launcher::Launcher;

const FINALIZERS: [&str; 2] = [
    "kubevirt.io/virtualMachineControllerFinalize",
    "foregroundDeleteVirtualMachine",
];

fn instance(phase: &str) -> DynamicObject {
    object(json!({
        "metadata": { "name": "vm", "finalizers": FINALIZERS },
        "status": { "phase": phase },
    }))
}

fn ready() -> Launcher {
    let ready = json!({ "type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null });
    Launcher {
        readiness: Some(ready),
        ..launcher("pod", "n")
    }
}

fn starting() -> Launcher {
    Launcher {
        ready: false,
        phase: "Pending".into(),
        ..ready()
    }
}

fn seen(instance: &DynamicObject, launchers: &[Launcher], second: i64) -> DynamicObject {
    let now = Time(Timestamp::from_second(second).expect("a time"));
    observed(instance, launchers, true, &now)
}

#[rstest]
#[case("Pending", None, "Pending", "PodNotExists")]
#[case("Pending", Some(starting()), "Scheduling", "GuestNotRunning")]
#[case("Scheduling", None, "Failed", "PodNotExists")]
#[case("Scheduling", Some(starting()), "Scheduling", "GuestNotRunning")]
#[case("Scheduling", Some(ready()), "Scheduled", "GuestNotRunning")]
#[case("Scheduling", Some(Launcher { node: String::new(), ..ready() }), "Scheduling", "GuestNotRunning")]
#[case("Scheduling", Some(Launcher { phase: "Failed".into(), ..ready() }), "Failed", "PodTerminating")]
#[case("Scheduling", Some(Launcher { leaving: true, ..ready() }), "Failed", "PodTerminating")]
#[case("Scheduled", None, "Failed", "PodNotExists")]
#[case("Running", Some(ready()), "Running", "")]
#[case("Running", Some(Launcher { readiness: None, ..ready() }), "Running", "PodConditionMissing")]
#[case("Running", None, "Failed", "PodNotExists")]
fn phase_and_readiness_follow_the_launcher(
    #[case] phase: &str,
    #[case] launcher: Option<Launcher>,
    #[case] next: &str,
    #[case] reason: &str,
) {
    let launchers: Vec<Launcher> = launcher.into_iter().collect();
    let after = seen(&instance(phase), &launchers, 1);
    assert_eq!(after.data["status"]["phase"], next);
    let ready = &after.data["status"]["conditions"][0];
    assert_eq!(ready["reason"].as_str().unwrap_or_default(), reason);
    assert_eq!(ready["status"] == "True", reason.is_empty());
    let again = seen(&after, &launchers, 2);
    if after.data["status"]["phase"] == phase {
        assert_eq!(again, after, "nothing changes but the time");
    }
}

#[test]
fn hand_over_names_the_node() {
    let after = seen(&instance("Scheduling"), &[ready()], 1);
    let labels = after.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get("kubevirt.io/nodeName"));
    assert_eq!(label.map(String::as_str), Some("n"));
    let status = &after.data["status"];
    assert_eq!(status["nodeName"], "n");
    assert_eq!(status["activePods"], json!({ "pod": "n" }));
    assert_eq!(status["migrationTransport"], "Unix");
}

#[test]
fn unschedulable_launcher_is_reported_while_it_is() {
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3" });
    let waiting = Launcher {
        unscheduled: Some(condition.clone()),
        ..starting()
    };
    let stuck = seen(&instance("Scheduling"), &[waiting], 1);
    let conditions = |it: &DynamicObject| it.data["status"]["conditions"].clone();
    assert_eq!(conditions(&stuck)[1], condition);
    let bound = seen(&stuck, &[starting()], 2);
    assert_eq!(conditions(&bound).as_array().map(Vec::len), Some(1));
}

#[test]
fn instance_that_ended_is_released_when_its_pods_are_gone() {
    let finalizers = |it: DynamicObject| it.metadata.finalizers.unwrap_or_default();
    let ended = instance("Succeeded");
    assert_eq!(finalizers(seen(&ended, &[ready()], 1)), FINALIZERS);
    assert_eq!(finalizers(seen(&ended, &[], 1)), FINALIZERS[..1]);
    let now = Time(Timestamp::UNIX_EPOCH);
    let orphan = observed(&ended, &[], false, &now);
    assert_eq!(orphan.metadata.finalizers, None);
    assert_eq!(orphan.data["status"].get("activePods"), None::<&Value>);
}
