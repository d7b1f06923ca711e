use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn data(value: Value) -> BTreeMap<String, String> {
    serde_json::from_value(value).unwrap()
}

fn authorities(pem: &str, names: &[&str]) -> Authorities {
    Authorities {
        pem: pem.to_owned(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    }
}

#[rstest]
#[case::kubeadm(
    json!({ PROXY_CA: "P", PROXY_NAMES: "[\"front-proxy-client\"]", CLIENT_CA: "C" }),
    &[],
    Some(authorities("P", &["front-proxy-client"]))
)]
#[case::every_name_of_proxies(
    json!({ PROXY_CA: "P", PROXY_NAMES: "[]", CLIENT_CA: "C" }),
    &[],
    Some(authorities("P", &[]))
)]
#[case::kubelets_are_not_api_servers(json!({ CLIENT_CA: "C" }), &[], None)]
#[case::named(
    json!({ PROXY_CA: "P", PROXY_NAMES: "[\"front-proxy-client\"]", CLIENT_CA: "C\n" }),
    &["kube-apiserver"],
    Some(authorities("P\nC", &["kube-apiserver"]))
)]
#[case::named_without_proxies(
    json!({ CLIENT_CA: "C" }),
    &["kube-apiserver"],
    Some(authorities("C", &["kube-apiserver"]))
)]
#[case::empty(json!({}), &["kube-apiserver"], None)]
#[case::blank(json!({ PROXY_CA: " \n" }), &[], None)]
fn config_map_names_api_servers(
    #[case] map: Value,
    #[case] names: &[&str],
    #[case] expected: Option<Authorities>,
) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(from_config_map(&data(map), &names), Ok(expected));
}

#[test]
fn client_ca_requires_a_name() {
    let map = data(json!({ PROXY_CA: "C\n", PROXY_NAMES: "[]", CLIENT_CA: "C" }));
    let error = from_config_map(&map, &[]).unwrap_err();
    assert!(error.contains("--client-name"), "{error}");
    let map = data(json!({ PROXY_CA: "P", PROXY_NAMES: "front-proxy-client" }));
    let error = from_config_map(&map, &[]).unwrap_err();
    assert!(error.contains("front-proxy-client"), "{error}");
}

#[test]
fn callers_are_unverified_without_client_ca() {
    let open = Callers::new(ClientVerification::default());
    assert_eq!(open.identify(None), Ok(Caller::Unverified));
    assert_eq!(open.readiness(), Ok("no caller can be verified"));
    let strict = Callers::new(ClientVerification {
        required: true,
        ..ClientVerification::default()
    });
    assert!(strict.identify(None).is_err());
    assert!(strict.readiness().is_err());
}
