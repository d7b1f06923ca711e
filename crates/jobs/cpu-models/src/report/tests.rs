use api::cpu::CpuModelPolicy;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::index::Index;
use crate::policy::Policy;
use crate::review::Stale;
use crate::test_values::{hosted, identical_nodes, index};

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

const CHOICE: Choice<'_> = Choice {
    node: "node-1",
    reason: "BestMatch",
};

fn reasons(before: Option<&Review>, now: &Review) -> Vec<(bool, &'static str)> {
    let found = notices(CHOICE, before, now).into_iter();
    found
        .map(|notice| (notice.warning, notice.reason))
        .collect()
}

#[test]
fn unchanged_review_emits_no_event() {
    for now in [
        review("EPYC", None, None),
        review("EPYC", Some(Stranded::NoTarget), Some("EPYC-Rome")),
    ] {
        assert_eq!(reasons(Some(&now), &now), []);
    }
}

#[test]
fn every_change_emits_one_event() {
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
    // A newer best model is a change; that no model is newer any more needs no action from the
    // user.
    let staler = review("EPYC", None, Some("EPYC-Milan"));
    assert_eq!(reasons(Some(&stale), &staler), [(false, "CpuModelStale")]);
    assert_eq!(reasons(Some(&staler), &fine), []);
    // A VM without a target from the start gets both events.
    let expected = [(false, "CpuModelChosen"), (true, "NoMigrationTarget")];
    assert_eq!(reasons(None, &none), expected);
}

#[test]
fn tally_counts_vms_by_state() {
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

struct StatusFixture {
    object: CpuModelPolicy,
    index: Index,
    kubevirt: bool,
    admission: bool,
    tally: Tally,
    now: i64,
}

impl StatusFixture {
    fn new() -> Self {
        Self {
            object: serde_json::from_value(json!({
                "apiVersion": "medley.dev/v1alpha1", "kind": "CpuModelPolicy",
                "metadata": { "name": "default", "generation": 2 }, "spec": {},
            }))
            .unwrap(),
            index: index([
                identical_nodes("a", 2, "AMD", &["EPYC", "Elbonia"]),
                vec![hosted(
                    identical_nodes("b", 1, "AMD", &["EPYC"]).remove(0),
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
        let status = status(&StatusInputs {
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
fn status_reports_tally_and_groups() {
    let mut fixture = StatusFixture::new();
    fixture.tally.resolved = 7;
    fixture.tally.stale = 3;
    let status = fixture.status();
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(status["machines"]["resolved"], 7);
    assert_eq!(status["machines"]["stale"], 3);
    assert_eq!(status["unknownModels"], json!(["Elbonia"]));
    assert_eq!(status["groups"][0]["nodes"], 2);
    assert_eq!(status["groups"][0]["newestModel"], "EPYC");
    assert_eq!(status["groups"][1]["hostModel"], "EPYC-Rome");
}

#[rstest]
#[case("Ready", "True", "Choosing", |_: &mut StatusFixture| {})]
#[case("Ready", "False", "KubeVirtNotInstalled", |fixture: &mut StatusFixture| fixture.kubevirt = false)]
#[case("Ready", "False", "InvalidPolicy", |fixture: &mut StatusFixture| fixture.object.spec.minimal_launch_year = Some(3))]
#[case("AdmissionReady", "True", "Registered", |_: &mut StatusFixture| {})]
#[case("AdmissionReady", "False", "NotRegistered", |fixture: &mut StatusFixture| fixture.admission = false)]
#[case("TargetsRemain", "True", "EveryMachineCanMove", |_: &mut StatusFixture| {})]
#[case("TargetsRemain", "False", "NoMigrationTarget", |fixture: &mut StatusFixture| fixture.tally.no_target = 2)]
fn conditions_reflect_inputs(
    #[case] kind: &str,
    #[case] status: &str,
    #[case] reason: &str,
    #[case] change: fn(&mut StatusFixture),
) {
    let mut fixture = StatusFixture::new();
    change(&mut fixture);
    let condition = fixture.condition(kind);
    assert_eq!(condition["status"], status, "{condition}");
    assert_eq!(condition["reason"], reason, "{condition}");
    assert_eq!(condition["observedGeneration"], 2);
}

#[test]
fn condition_names_vms_without_target() {
    let mut fixture = StatusFixture::new();
    fixture.tally.no_target = 3;
    let message = fixture.condition("TargetsRemain")["message"].clone();
    assert_eq!(message, "3 VMs have no migration target: a/b and 2 more");
}

#[test]
fn transition_time_changes_only_with_status() {
    let mut fixture = StatusFixture::new();
    let first = fixture.status();
    fixture.object.status = serde_json::from_value(first.clone()).unwrap();
    fixture.now = 2000;
    assert_eq!(fixture.status(), first, "nothing changed");
    fixture.admission = false;
    let time = |condition: Value| condition["lastTransitionTime"].clone();
    assert_eq!(
        time(fixture.condition("AdmissionReady")),
        "1970-01-01T00:33:20Z"
    );
    assert_eq!(time(fixture.condition("Ready")), "1970-01-01T00:16:40Z");
}

#[test]
fn events_name_node_model_reason_and_targets() {
    let fine = review("EPYC-Rome", None, None);
    let chosen = &notices(CHOICE, None, &fine)[0].message;
    let expected =
        "chose CPU model EPYC-Rome on node node-1 (BestMatch); 2 other nodes can take the VM";
    assert_eq!(chosen, expected);
    let stuck = review("EPYC-Rome", Some(Stranded::NoTarget), None);
    let warning = &notices(CHOICE, Some(&fine), &stuck)[0].message;
    assert!(
        warning.contains("EPYC-Rome") && warning.contains("node-1"),
        "{warning}"
    );
}
