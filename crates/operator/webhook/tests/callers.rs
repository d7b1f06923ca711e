//! Callers: which client certificates are trusted, and where that is configured.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use rstest::rstest;
use serde_json::{Value, json};
use serving::certificates::SelfSigned;
use testkit::{TestCluster, TlsClient, WEBHOOK_CALLER, wait_until};
use webhook::{
    Certificates, ClientCa, ClientVerification, Health, Settings, WebhookServer, Webhooks,
};

/// How long a server may take to serve a new kind or to use another certificate.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const NAMES: &str = "requestheader-allowed-names";
const PROXIES: &str = "requestheader-client-ca-file";
const CLIENTS: &str = "client-ca-file";

/// A webhook that rejects unverified callers, and a client for it.
async fn serve(
    cluster: &TestCluster,
    authority: ClientCa,
    names: &[&str],
) -> anyhow::Result<(WebhookServer, String)> {
    let own = SelfSigned::new("medley-webhook", &["127.0.0.1".to_owned()])?;
    let trust = own.authority().to_owned();
    let settings = Settings {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        metrics: None,
        metrics_files: None,
        certificates: Certificates::SelfSigned(own),
        callers: ClientVerification {
            authority,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            required: true,
        },
        health: Health::default(),
    };
    Ok((
        webhook::serve_with(cluster.client(), settings).await?,
        trust,
    ))
}

/// Status code of a review by a user of the cluster.
async fn code(
    cluster: &TestCluster,
    webhook: &(WebhookServer, String),
    user: Option<&str>,
) -> anyhow::Result<u16> {
    let identity = user.map(|user| cluster.client_certificate(user));
    let identity = identity.transpose()?;
    let identity = identity
        .as_ref()
        .map(|(it, key)| (it.as_str(), key.as_str()));
    let client = TlsClient::new(&webhook.1, identity)?;
    let (code, _) = client
        .send(webhook.0.address(), "POST", "/admit", b"{}")
        .await?;
    Ok(code)
}

/// A ConfigMap as kube-apiserver publishes it.
async fn publish(cluster: &TestCluster, data: Value) -> anyhow::Result<ClientCa> {
    let object = json!({ "metadata": { "generateName": "authentication-" }, "data": data });
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
    let object = serde_json::from_value(object)?;
    let made = maps.create(&PostParams::default(), &object).await?;
    Ok(ClientCa::ConfigMap {
        namespace: "kube-system".to_owned(),
        name: made.metadata.name.unwrap_or_default(),
    })
}

#[rstest]
#[case::proxies(json!({ PROXIES: "CA", NAMES: "[\"front-proxy-client\"]", CLIENTS: "" }), &[], "front-proxy-client")]
#[case::named(json!({ CLIENTS: "CA" }), &["kube-apiserver"], "kube-apiserver")]
#[tokio::test]
async fn published_client_ca_is_trusted(
    #[case] mut data: Value,
    #[case] names: &[&str],
    #[case] server: &str,
) -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    for value in data.as_object_mut().into_iter().flatten() {
        if *value.1 == "CA" {
            *value.1 = cluster.root_ca().into();
        }
    }
    let authority = publish(&cluster, data).await?;
    let webhook = serve(&cluster, authority, names).await?;
    assert_eq!(code(&cluster, &webhook, None).await?, 401);
    assert_eq!(code(&cluster, &webhook, Some("system:node:a")).await?, 403);
    assert_eq!(code(&cluster, &webhook, Some(server)).await?, 200);
    webhook.0.stop().await;
    Ok(())
}

#[tokio::test]
async fn cluster_client_ca_without_names_verifies_no_caller() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let data = json!({ CLIENTS: cluster.root_ca() });
    let authority = publish(&cluster, data).await?;
    let webhook = serve(&cluster, authority, &[]).await?;
    assert_eq!(code(&cluster, &webhook, Some(WEBHOOK_CALLER)).await?, 403);
    let client = TlsClient::new(&webhook.1, None)?;
    let (ready, message) = client
        .send(webhook.0.address(), "GET", "/readyz", b"")
        .await?;
    assert_eq!(ready, 503, "{message}");
    assert!(message.contains("no client CA is known"), "{message}");
    webhook.0.stop().await;
    Ok(())
}

#[tokio::test]
async fn client_ca_file_is_reloaded() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ca.crt");
    let absent = serve(&cluster, ClientCa::File(file.clone()), &[]).await;
    let absent = absent.map(drop).unwrap_err().to_string();
    assert!(absent.contains("ca.crt"), "{absent}");

    let (_, _, another) = testkit::certificate()?;
    std::fs::write(&file, another)?;
    let webhook = serve(&cluster, ClientCa::File(file.clone()), &[]).await?;
    assert_eq!(code(&cluster, &webhook, Some(WEBHOOK_CALLER)).await?, 403);
    std::fs::write(&file, cluster.root_ca())?;
    wait_until("the file is read again", WAIT_TIMEOUT, async || {
        let code = code(&cluster, &webhook, Some(WEBHOOK_CALLER)).await?;
        Ok((code == 200).then_some(()))
    })
    .await?;
    webhook.0.stop().await;
    Ok(())
}

/// Both API servers present the configured certificate on every connection.
#[tokio::test(flavor = "multi_thread")]
async fn api_server_is_verified_by_client_certificate() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manifest = include_str!("../../../../deploy/crds/virtplatformconfigs.yaml");
    let definition: Value = serde_saphyr::from_str(manifest)?;
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    let definition = serde_json::from_value(definition)?;
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    let callers = ClientVerification {
        authority: ClientCa::Pem(cluster.root_ca().to_owned()),
        names: vec![WEBHOOK_CALLER.to_owned()],
        required: true,
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let checks = Webhooks::default();
    let webhook = webhook::start_verifying(client.clone(), any, &checks, callers).await?;
    let config = json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1",
        "kind": "VirtPlatformConfig",
        "metadata": { "name": "load-aware-rebalancing" },
        "spec": { "profile": "load-aware-rebalancing" },
    });
    let create = async || {
        let request = http::Request::post(
            "/apis/advisor.kubevirt.io/v1alpha1/virtplatformconfigs?dryRun=All",
        )
        .header("content-type", "application/json")
        .body(config.to_string().into_bytes())?;
        let answer = cluster.request(request).await?;
        // Until the kind is served, the answer is no JSON.
        let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        anyhow::Ok((answer.status().as_u16(), body))
    };
    if !cluster.is_genuine() {
        // The server presents nothing until it is configured to, and the webhook answers no such request.
        wait_until("the kind is served", WAIT_TIMEOUT, async || {
            let (code, body) = create().await?;
            anyhow::ensure!(code != 201, "accepted without a certificate: {body}");
            Ok((code == 500).then_some(()))
        })
        .await?;
    }
    cluster.present_to_webhooks()?;
    wait_until("the server is verified", WAIT_TIMEOUT, async || {
        let (code, body) = create().await?;
        let authors = &body["metadata"]["annotations"]["advisor.kubevirt.io/authors"];
        Ok((code == 201 && authors.is_string()).then_some(()))
    })
    .await?;
    webhook.stop().await;
    Ok(())
}
