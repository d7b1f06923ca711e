use std::collections::{BTreeMap, BTreeSet};

use api::cdi::Named;
use api::mode::ModeSetting;
use api::operators::RunningOperator;
use golden_images::layers::{CDI, Layer, LayerState};
use jiff::Timestamp;
use serde_json::json;

use super::super::inputs::{Account, JobOwnership, OwnershipState, Policy, Version};
use super::super::network::NetworkInputs;
use super::*;

/// An installation without problems, with all third-party CRDs.
pub(in crate::check) fn healthy() -> CheckInputs {
    let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
    let kinds = Job::ALL.iter().flat_map(|job| foreign(*job));
    let mut kinds: BTreeSet<String> = kinds.map(|(kind, _)| (*kind).to_owned()).collect();
    kinds.insert("servicemonitors.monitoring.coreos.com".to_owned());
    kinds.insert("prometheusrules.monitoring.coreos.com".to_owned());
    let definitions = manifests::definitions().map(|definition| {
        let name = definition.metadata.name.clone().unwrap();
        let mut there = serde_json::to_value(&definition).unwrap();
        there["status"] = json!({
            "conditions": [{ "type": "Established", "status": "True" }],
        });
        // The API server fills in defaults.
        there["spec"]["versions"][0]["deprecated"] = json!(false);
        (name, Ok(Some(there)))
    });
    let deployment = || {
        serde_json::from_value(json!({
            "spec": { "replicas": 2, "selector": {}, "template": {} },
            "status": { "availableReplicas": 2, "updatedReplicas": 2 },
        }))
        .unwrap()
    };
    let registration = serde_json::from_value(json!({
        "webhooks": [{
            "name": "approval.advisor.kubevirt.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            // A PEM certificate in base64.
            "clientConfig": {
                "service": { "namespace": "medley-system", "name": "medley-webhook" },
                "caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            },
        }],
    }));
    let lease = serde_json::from_value(json!({
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:08.000000Z",
    }));
    CheckInputs {
        now,
        pre: false,
        namespace: "medley-system".to_owned(),
        jobs: Job::STANDARD.iter().copied().collect(),
        version: Version {
            text: "v1.36.0".to_owned(),
            number: Some((1, 36)),
        },
        cannot_install: Ok(Vec::new()),
        may_escalate: Ok(true),
        namespace_exists: Ok(true),
        openshift: Ok(None),
        kinds: Ok(kinds),
        definitions: BTreeMap::from(definitions),
        operator: Ok(Some(deployment())),
        webhook: Ok(Some(deployment())),
        lease: Ok(Some(lease.unwrap())),
        registrations: BTreeMap::from([(
            "medley-governance".to_owned(),
            Ok(Some(registration.unwrap())),
        )]),
        endpoints: BTreeMap::from([("medley-system/medley-webhook".to_owned(), Ok(1))]),
        accounts: vec![Account {
            name: manifests::ACCOUNT,
            missing: Ok(Vec::new()),
            surplus: Ok(Vec::new()),
        }],
        policies: vec![Ok(Policy {
            name: "CpuModelPolicy/default".to_owned(),
            invalid: None,
        })],
        network: NetworkInputs::none(),
        rivals: rivals::tests::none(),
        ownership: Vec::new(),
        monitored: Ok(true),
    }
}

/// The findings that are not `Ok`, with their severity.
fn problems(inputs: &CheckInputs) -> Vec<(&'static str, State)> {
    let findings = decide(inputs);
    for finding in &findings {
        let is_problem = matches!(finding.state, State::Warning | State::Failed);
        assert!(
            !is_problem || (finding.hint.is_some() && !finding.message.is_empty()),
            "{finding:?}"
        );
    }
    let others = findings.iter().filter(|it| it.state != State::Ok);
    others.map(|it| (it.id, it.state)).collect()
}

#[test]
fn healthy_installation_has_no_findings() {
    assert_eq!(problems(&healthy()), []);
    let before = CheckInputs {
        pre: true,
        namespace_exists: Ok(false),
        definitions: BTreeMap::new(),
        ..healthy()
    };
    // Optional components are reported.
    assert_eq!(problems(&before), [("monitoring", State::Off)]);
}

#[test]
fn findings_of_a_group_are_adjacent() {
    for pre in [true, false] {
        let findings = decide(&CheckInputs { pre, ..healthy() });
        let mut groups: Vec<&str> = findings.iter().map(|it| it.group).collect();
        groups.dedup();
        let distinct: BTreeSet<&str> = groups.iter().copied().collect();
        assert_eq!(distinct.len(), groups.len(), "{groups:?}");
    }
}

#[test]
fn every_problem_has_a_finding() {
    type Change = fn(&mut CheckInputs);
    let cases: [(&str, State, Change); 18] = [
        ("version", State::Failed, |it| {
            it.version.number = Some((1, 29));
        }),
        ("version", State::Warning, |it| it.version.number = None),
        ("namespace", State::Failed, |it| {
            it.namespace_exists = Ok(false);
        }),
        ("namespace", State::Warning, |it| {
            it.namespace_exists = Err("forbidden".to_owned());
        }),
        ("kinds", State::Failed, |it| {
            let name = "cpumodelpolicies.medley.dev".to_owned();
            it.definitions.insert(name, Ok(None));
        }),
        ("kinds", State::Failed, |it| {
            for there in it.definitions.values_mut().take(1) {
                there.as_mut().unwrap().as_mut().unwrap()["status"] = json!({});
            }
        }),
        ("kinds", State::Warning, |it| {
            for there in it.definitions.values_mut().take(1) {
                let versions = &mut there.as_mut().unwrap().as_mut().unwrap()["spec"]["versions"];
                versions[0]["schema"] = json!({ "openAPIV3Schema": { "type": "object" } });
            }
        }),
        ("rights", State::Failed, |it| {
            it.accounts[0].missing = Ok(vec!["list nodes".to_owned()]);
        }),
        ("rights-surplus", State::Warning, |it| {
            it.accounts[0].surplus = Ok(vec!["ClusterRoleBinding x".to_owned()]);
        }),
        ("operator", State::Failed, |it| it.operator = Ok(None)),
        ("operator", State::Warning, |it| {
            let deployment = it.operator.as_mut().unwrap().as_mut().unwrap();
            deployment.status.as_mut().unwrap().available_replicas = Some(1);
        }),
        ("webhook", State::Failed, |it| {
            let deployment = it.webhook.as_mut().unwrap().as_mut().unwrap();
            deployment.status = None;
        }),
        ("lease", State::Failed, |it| it.lease = Ok(None)),
        ("lease", State::Failed, |it| {
            it.now = "2026-01-01T00:10:00Z".parse().unwrap();
        }),
        ("lease", State::Failed, |it| {
            let lease = it.lease.as_mut().unwrap().as_mut().unwrap();
            lease.holder_identity = Some(String::new());
        }),
        ("registrations", State::Failed, |it| {
            for there in it.registrations.values_mut() {
                let there = there.as_mut().unwrap().as_mut().unwrap();
                there.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
            }
        }),
        ("webhook-endpoints", State::Failed, |it| {
            for ready in it.endpoints.values_mut() {
                *ready = Ok(0);
            }
        }),
        ("policies", State::Failed, |it| {
            it.policies[0].as_mut().unwrap().invalid = Some("year 3".to_owned());
        }),
    ];
    for (id, state, change) in cases {
        let mut inputs = healthy();
        change(&mut inputs);
        assert_eq!(problems(&inputs), [(id, state)]);
    }
}

#[test]
fn pre_check_depends_on_permissions_of_the_installer() {
    let inputs = CheckInputs {
        pre: true,
        cannot_install: Ok(vec!["create namespaces".to_owned()]),
        may_escalate: Ok(false),
        namespace_exists: Ok(false),
        definitions: BTreeMap::new(),
        monitored: Ok(false),
        ..healthy()
    };
    assert_eq!(
        problems(&inputs),
        [
            ("install-rights", State::Failed),
            ("install-grants", State::Warning),
            ("monitoring", State::Off),
        ]
    );
}

#[test]
fn missing_third_party_crds_are_off() {
    let inputs = CheckInputs {
        kinds: Ok(BTreeSet::new()),
        policies: Vec::new(),
        monitored: Ok(false),
        ..healthy()
    };
    assert_eq!(
        problems(&inputs),
        [
            ("jobs", State::Off),
            ("jobs", State::Off),
            ("policies", State::Off),
            ("monitoring", State::Off),
        ]
    );
}

#[test]
fn webhook_is_not_checked_without_admission_jobs() {
    let inputs = CheckInputs {
        jobs: [Job::Release].into(),
        webhook: Ok(None),
        registrations: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        ..healthy()
    };
    assert_eq!(problems(&inputs), []);
}

#[test]
fn long_lists_are_truncated() {
    let all: Vec<String> = (0..7).map(|it| it.to_string()).collect();
    assert_eq!(listed(&all), "0, 1, 2, 3, 4, and 2 more");
    assert_eq!(listed(&all[..2]), "0, 1");
}

#[test]
fn genuine_operators_are_named_with_the_next_step() {
    let running = RunningOperator {
        operator: CDI,
        deployment: Some(Named {
            namespace: "cdi".to_owned(),
            name: "cdi-deployment".to_owned(),
        }),
        restorer: None,
        lease: None,
    };
    let entry = |enabled: bool, running: Option<&RunningOperator>| JobOwnership {
        component: "images-cdi".to_owned(),
        enabled,
        state: Ok(OwnershipState {
            ownership: Layer::Cdi.mode(&LayerState {
                setting: ModeSetting::Auto,
                enabled,
                installed: true,
                running,
            }),
            running: running.cloned(),
        }),
        take_over: Some("medley images take-over images-cdi".to_owned()),
    };
    let found = |pre: bool, entry: JobOwnership| -> Vec<(State, String)> {
        let inputs = CheckInputs {
            pre,
            ownership: vec![entry],
            ..healthy()
        };
        let id = if pre { "install-rivals" } else { "ownership" };
        let findings = decide(&inputs).into_iter().filter(|it| it.id == id);
        findings
            .map(|it| (it.state, it.hint.unwrap_or_default()))
            .collect()
    };
    // Nothing to say about a controller that is not to be installed, without a rival.
    assert_eq!(found(true, entry(false, None)), []);
    assert_eq!(found(true, entry(true, None)), [(State::Ok, String::new())]);
    assert_eq!(found(false, entry(false, Some(&running))), []);
    assert_eq!(
        found(false, entry(true, None)),
        [(State::Ok, String::new())]
    );
    for (pre, enabled, expected) in [
        (
            true,
            true,
            "to let Medley manage after the installation: medley images take-over images-cdi",
        ),
        (true, false, "with images-cdi in --controllers"),
        (
            false,
            true,
            "to let Medley manage: medley images take-over images-cdi",
        ),
    ] {
        let found = found(pre, entry(enabled, Some(&running)));
        let [(State::Off, hint)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(hint.contains(expected), "{hint}");
    }
    let unreadable = JobOwnership {
        state: Err("deployments.apps is forbidden".to_owned()),
        ..entry(true, None)
    };
    let found = found(false, unreadable);
    assert!(
        matches!(found.as_slice(), [(State::Warning, _)]),
        "{found:?}"
    );
}
