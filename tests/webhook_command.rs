//! `medley webhook` as a process that the API server calls.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use std::path::Path;
use std::time::Duration;

use binary::{MEDLEY, medley, stop, text, until};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use testkit::{Process, ServedCluster, TestCluster, free_port, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

fn start(served: &ServedCluster, name: &str, arguments: &[&str]) -> Process {
    let folder = served.folder().join(name);
    std::fs::create_dir(&folder).unwrap();
    let kubeconfig = served.kubeconfig.to_str().unwrap();
    let common = ["webhook", "-v", "--kubeconfig", kubeconfig];
    let arguments = common.iter().chain(arguments);
    Process::start(Path::new(MEDLEY), arguments, &folder).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_calls_the_webhook_process() {
    let cluster = TestCluster::start().await.unwrap();
    let served = cluster.serve().await.unwrap();
    let client = cluster.client();
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../deploy/crds/virtplatformconfigs.yaml"
    );
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let definition: Value = serde_saphyr::from_str(&manifest).unwrap();
    let definition = serde_json::from_value(definition).unwrap();
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();

    let port = free_port().unwrap();
    let address = format!("127.0.0.1:{port}");
    let register = format!("url=https://{address}");
    let health = format!("127.0.0.1:{}", free_port().unwrap());
    let arguments = [
        "--address",
        &address,
        "--health-address",
        &health,
        "--register",
        &register,
    ];
    let mut process = start(&served, "webhook", &arguments);
    until("it is ready", || {
        let output = process.output();
        assert!(process.ended().unwrap().is_none(), "{output}");
        output.lines().any(|line| line == "ready").then_some(())
    });
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let registered = registrations.get("medley-governance").await.unwrap();
    let hook = &registered.webhooks.unwrap()[0];
    assert_eq!(hook.failure_policy.as_deref(), Some("Fail"));
    assert_eq!(hook.side_effects, "None");

    let kind = ApiResource {
        group: "advisor.kubevirt.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "advisor.kubevirt.io/v1alpha1".to_owned(),
        kind: "VirtPlatformConfig".to_owned(),
        plural: "virtplatformconfigs".to_owned(),
    };
    let configs: Api<DynamicObject> = Api::all_with(client, &kind);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": { "name": "load-aware-rebalancing" },
        "spec": { "profile": "load-aware-rebalancing" },
    }))
    .unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_until("the author is recorded", WAIT_TIMEOUT, async || {
        let made = configs.create(&dry_run, &object).await.ok();
        let annotations = made.and_then(|made| made.metadata.annotations);
        Ok(annotations.and_then(|all| all.get("advisor.kubevirt.io/authors").cloned()))
    })
    .await
    .unwrap();
    assert_eq!(stop(&mut process, "-TERM").code(), Some(0));
    let refused = configs.create(&dry_run, &object).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("approval.advisor.kubevirt.io"),
        "{refused}"
    );
}

#[test]
fn incomplete_certificate_options_are_rejected() {
    for (arguments, remedy) in [
        (&["webhook"][..], "--register WHERE"),
        (&["webhook", "--tls-cert", "a"], "--tls-key"),
        (
            &[
                "webhook",
                "--tls-cert",
                "a",
                "--tls-key",
                "b",
                "--register",
                "service=a/b",
            ],
            "--tls-ca PATH",
        ),
        (
            &[
                "webhook",
                "--register",
                "url=https://a",
                "--require-client-cert",
            ],
            "--client-ca",
        ),
        (
            &[
                "webhook",
                "--register",
                "url=https://a",
                "--client-ca-configmap",
                "a",
            ],
            "kube-system/extension-apiserver-authentication",
        ),
        (
            &["webhook", "--register", "somewhere"],
            "service=NAMESPACE/NAME",
        ),
    ] {
        let output = medley(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let printed = text(&output.stderr);
        assert!(printed.contains(remedy), "{remedy} in {printed}");
    }
}
