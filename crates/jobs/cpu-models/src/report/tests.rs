use api::cpu::CpuModelPolicy;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::index::Index;
use crate::policy::Policy;
use crate::review::Stale;
use crate::test_values::{alike, hosted, index};

fn review(model: &str, stranded: Option<Stranded>, stale: Option<&str>) -> Review {
    Review {
        model: Some(model.to_owned()),
        node_known: true,
        supporters: 3,
        targets: 2,
        threshold: None,
        stranded,
        stale: stale.map(|model| Stale {
            model: model.to_owned(),
            here: true,
        }),
    }
}

fn reasons(before: Option<&Review>, now: &Review) -> Vec<(bool, &'static str)> {
    let found = notices(before, now).into_iter();
    found
        .map(|notice| (notice.warning, notice.reason))
        .collect()
}

#[test]
fn what_did_not_change_is_not_told() {
    for now in [
        review("EPYC", None, None),
        review("EPYC", Some(Stranded::NoTarget), Some("EPYC-Rome")),
    ] {
        assert_eq!(reasons(Some(&now), &now), []);
    }
}

#[test]
fn every_change_is_told_once() {
    let fine = review("EPYC", None, None);
    assert_eq!(reasons(None, &fine), [(false, "CpuModelChosen")]);
    let few = review("EPYC", Some(Stranded::BelowThreshold), None);
    assert_eq!(reasons(Some(&fine), &few), [(true, "CpuModelStranded")]);
    let none = review("EPYC", Some(Stranded::NoTarget), None);
    assert_eq!(reasons(Some(&few), &none), [(true, "NoMigrationTarget")]);
    assert_eq!(
        reasons(Some(&none), &fine),
        [(false, "MigrationTargetsBack")]
    );
    let stale = review("EPYC", None, Some("EPYC-Rome"));
    assert_eq!(reasons(Some(&fine), &stale), [(false, "CpuModelStale")]);
    // What is newest changes; that nothing is newer any more is nothing to do about.
    let staler = review("EPYC", None, Some("EPYC-Milan"));
    assert_eq!(reasons(Some(&stale), &staler), [(false, "CpuModelStale")]);
    assert_eq!(reasons(Some(&staler), &fine), []);
    // A machine that has nowhere to go from the start.
    let expected = [(false, "CpuModelChosen"), (true, "NoMigrationTarget")];
    assert_eq!(reasons(None, &none), expected);
}

#[test]
fn machines_are_counted_by_how_they_fare() {
    let mut tally = Tally::default();
    tally.add(None);
    tally.add(Some(&review("EPYC", None, Some("EPYC-Rome"))));
    tally.add(Some(&review("EPYC", Some(Stranded::BelowThreshold), None)));
    tally.add(Some(&review("host-model", Some(Stranded::NoTarget), None)));
    let expected = Tally {
        resolved: 2,
        host_model: 1,
        undecided: 1,
        stale: 1,
        stranded: 2,
        no_target: 1,
    };
    assert_eq!(tally, expected);
}

struct World {
    object: CpuModelPolicy,
    index: Index,
    kubevirt: bool,
    admission: bool,
    tally: Tally,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self {
            object: serde_json::from_value(json!({
                "apiVersion": "medley.dev/v1alpha1", "kind": "CpuModelPolicy",
                "metadata": { "name": "default", "generation": 2 }, "spec": {},
            }))
            .unwrap(),
            index: index([
                alike("a", 2, "AMD", &["EPYC", "Elbonia"]),
                vec![hosted(
                    alike("b", 1, "AMD", &["EPYC"]).remove(0),
                    "EPYC-Rome",
                )],
            ]),
            kubevirt: true,
            admission: true,
            tally: Tally::default(),
            now: 1000,
        }
    }

    fn status(&self) -> Value {
        let (policy, complaints) = Policy::read(&self.object.spec);
        let status = status(&Facts {
            object: &self.object,
            complaints: &complaints,
            policy: &policy,
            index: &self.index,
            kubevirt_installed: self.kubevirt,
            admission_registered: self.admission,
            tally: self.tally,
            no_target: &["a/b".to_owned()],
            now: Timestamp::from_second(self.now).unwrap(),
        });
        serde_json::to_value(status).unwrap()
    }

    fn condition(&self, kind: &str) -> Value {
        let status = self.status();
        let all = status["conditions"].as_array().unwrap();
        let found = all.iter().find(|condition| condition["type"] == kind);
        found.unwrap().clone()
    }
}

#[test]
fn the_status_says_what_there_is() {
    let mut world = World::new();
    world.tally.resolved = 7;
    world.tally.stale = 3;
    let status = world.status();
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(status["machines"]["resolved"], 7);
    assert_eq!(status["machines"]["stale"], 3);
    assert_eq!(status["unknownModels"], json!(["Elbonia"]));
    assert_eq!(status["groups"][0]["nodes"], 2);
    assert_eq!(status["groups"][0]["newestModel"], "EPYC");
    assert_eq!(status["groups"][1]["hostModel"], "EPYC-Rome");
}

#[rstest]
#[case("Ready", "True", "Choosing", |_: &mut World| {})]
#[case("Ready", "False", "KubeVirtNotInstalled", |world: &mut World| world.kubevirt = false)]
#[case("Ready", "False", "InvalidPolicy", |world: &mut World| world.object.spec.minimal_launch_year = Some(3))]
#[case("AdmissionReady", "True", "Registered", |_: &mut World| {})]
#[case("AdmissionReady", "False", "NotRegistered", |world: &mut World| world.admission = false)]
#[case("TargetsRemain", "True", "EveryMachineCanMove", |_: &mut World| {})]
#[case("TargetsRemain", "False", "NoMigrationTarget", |world: &mut World| world.tally.no_target = 2)]
fn conditions_say_what_holds(
    #[case] kind: &str,
    #[case] status: &str,
    #[case] reason: &str,
    #[case] change: fn(&mut World),
) {
    let mut world = World::new();
    change(&mut world);
    let condition = world.condition(kind);
    assert_eq!(condition["status"], status, "{condition}");
    assert_eq!(condition["reason"], reason, "{condition}");
    assert_eq!(condition["observedGeneration"], 2);
}

#[test]
fn those_that_cannot_move_are_named() {
    let mut world = World::new();
    world.tally.no_target = 3;
    let message = world.condition("TargetsRemain")["message"].clone();
    assert_eq!(
        message,
        "no node could take 3 of the machines: a/b and 2 more"
    );
}

#[test]
fn times_move_when_something_does() {
    let mut world = World::new();
    let first = world.status();
    world.object.status = serde_json::from_value(first.clone()).unwrap();
    world.now = 2000;
    assert_eq!(world.status(), first, "nothing changed");
    world.admission = false;
    let time = |condition: Value| condition["lastTransitionTime"].clone();
    assert_eq!(
        time(world.condition("AdmissionReady")),
        "1970-01-01T00:33:20Z"
    );
    assert_eq!(time(world.condition("Ready")), "1970-01-01T00:16:40Z");
}
