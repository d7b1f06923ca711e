//! Findings about proxies, certificates and pull secrets.

use rstest::rstest;
use serde_json::json;

use super::super::decide::State;
use super::*;

fn of_cluster(url: &str) -> Value {
    json!({ "status": { "httpsProxy": url } })
}

#[rstest]
#[case::no_proxy(NetworkInputs::none(), State::Ok)]
#[case::only_here(NetworkInputs { uses_proxy: true, ..NetworkInputs::none() }, State::Warning)]
#[case::here_and_installed(NetworkInputs { uses_proxy: true, environment: Ok(true), ..NetworkInputs::none() }, State::Ok)]
#[case::of_the_cluster(
    NetworkInputs { uses_proxy: true, proxy: Ok(Some(of_cluster("http://proxy:1"))), ..NetworkInputs::none() },
    State::Ok
)]
#[case::not_verified(NetworkInputs { uses_proxy: true, proxy: Ok(Some(of_cluster(""))), ..NetworkInputs::none() }, State::Warning)]
#[case::unreadable(NetworkInputs { proxy: Err("forbidden".to_owned()), ..NetworkInputs::none() }, State::Warning)]
fn pods_need_the_proxy_of_the_user(#[case] network: NetworkInputs, #[case] expected: State) {
    let finding = proxy(&network);
    assert_eq!(finding.state, expected, "{finding:?}");
    assert_eq!(finding.hint.is_some(), expected != State::Ok);
}

#[test]
fn certificates_need_a_role() {
    assert_eq!(certificates(&NetworkInputs::none(), true), None);
    let mut network = NetworkInputs {
        proxy: Ok(Some(
            json!({ "spec": { "trustedCA": { "name": "user-ca" } } }),
        )),
        image: Ok(Some(
            json!({ "spec": { "additionalTrustedCA": { "name": "registries" } } }),
        )),
        ..NetworkInputs::none()
    };
    let before = certificates(&network, true).unwrap();
    assert_eq!(before.state, State::Off);
    let after = certificates(&network, false).unwrap();
    assert_eq!(after.state, State::Warning);
    assert_eq!(
        after.message,
        "Role openshift-config/medley-openshift-config for ConfigMap openshift-config/user-ca and \
         openshift-config/registries is missing"
    );
    network.may_read_certificates = Ok(true);
    assert_eq!(certificates(&network, false).unwrap().state, State::Ok);
}

#[test]
fn global_pull_secret_is_named_by_a_policy() {
    assert_eq!(pull_secret(&NetworkInputs::none()), None);
    let mut network = NetworkInputs {
        pull_secret: Ok(true),
        ..NetworkInputs::none()
    };
    let finding = pull_secret(&network).unwrap();
    assert_eq!(finding.state, State::Off);
    assert!(
        finding
            .hint
            .unwrap()
            .contains("openshift-config/pull-secret")
    );
    network.pull_secret_is_named = Ok(true);
    assert_eq!(pull_secret(&network).unwrap().state, State::Ok);
}
