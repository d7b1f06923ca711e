//! Replicas of the webhook share CAs, which are rotated while the API server calls the webhook.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};
use webhook::{Authorities, Certificates, WebhookAddress, WebhookServer, Webhooks};

const NAMESPACE: &str = "medley-system";
const SECRET: &str = "medley-webhook-authority";
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A replica, and the CA bundle at its start.
async fn replica(client: &Client) -> anyhow::Result<(WebhookServer, String)> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let authorities = Authorities::open(client.clone(), NAMESPACE, SECRET, names).await?;
    let bundle = authorities.bundle();
    let certificates = Certificates::Shared {
        authorities: Box::new(authorities),
        every: Duration::from_millis(20),
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let running = webhook::serve(client.clone(), any, certificates).await?;
    Ok((running, bundle))
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), NAMESPACE)
}

async fn authorities(client: &Client) -> anyhow::Result<Vec<Value>> {
    let data = secrets(client).get(SECRET).await?.data.unwrap_or_default();
    Ok(serde_json::from_slice(&data["authorities.json"].0)?)
}

/// Ages a CA: created so long ago, with so much of its lifetime left.
async fn age(client: &Client, which: usize, made: i64, left: i64) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let mut secret = secrets(client).get(SECRET).await?;
    let mut all = authorities(client).await?;
    all[which]["made"] = json!(now - SignedDuration::from_mins(made));
    all[which]["expires"] = json!(now + SignedDuration::from_hours(24 * left));
    let data = secret.data.as_mut().context("a secret with data")?;
    data.insert(
        "authorities.json".to_owned(),
        ByteString(serde_json::to_vec(&all)?),
    );
    secrets(client)
        .replace(SECRET, &PostParams::default(), &secret)
        .await?;
    Ok(())
}

/// Number of CAs in the registration.
async fn trusted(client: &Client) -> anyhow::Result<usize> {
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let registration = registrations.get("medley-governance").await?;
    let hooks = registration.webhooks.unwrap_or_default();
    let bundle = hooks[0].client_config.ca_bundle.clone().unwrap_or_default();
    Ok(String::from_utf8(bundle.0)?
        .matches("BEGIN CERTIFICATE")
        .count())
}

#[tokio::test(flavor = "multi_thread")]
async fn cas_are_rotated_without_downtime() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    operator_kinds(&client).await?;
    // Two replicas that start at the same time agree.
    let (first, second) = tokio::try_join!(replica(&client), replica(&client))?;
    let ((mut one, bundle), (two, same)) = (first, second);
    assert_eq!(bundle, same);
    assert_eq!(authorities(&client).await?.len(), 1);

    let reach = WebhookAddress::Url(one.url());
    let checks = Webhooks {
        approvals: true,
        ..Webhooks::default()
    };
    let trust = one.trust().cloned().context("a certificate of its own")?;
    webhook::register_webhooks(&client, &trust, &reach, &checks, &mut one).await?;
    wait_until("the API server asks", WAIT_TIMEOUT, async || {
        Ok(author(&client).await.ok().flatten())
    })
    .await?;

    // From here on every review must be answered.
    let ended = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicUsize::new(0));
    let asking = {
        let (client, ended, answers) = (client.clone(), ended.clone(), answers.clone());
        tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                let author = author(&client).await?;
                anyhow::ensure!(author.is_some(), "nobody was asked");
                answers.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    };

    // Two thirds of its lifetime are over: the next CA is created, and published before it signs.
    age(&client, 0, 300 * 24 * 60, 65).await?;
    wait_until("two are trusted", WAIT_TIMEOUT, async || {
        Ok((trusted(&client).await? == 2).then_some(()))
    })
    .await?;
    assert_eq!(authorities(&client).await?.len(), 2);
    let next = pem(&authorities(&client).await?[1])?;
    assert!(!is_trusted(&one, &next).await && !is_trusted(&two, &next).await);

    // It is propagated: it signs for all replicas.
    age(&client, 1, 90, 364).await?;
    for check in [&one, &two] {
        wait_until("the new one signs", WAIT_TIMEOUT, async || {
            Ok(is_trusted(check, &next).await.then_some(()))
        })
        .await?;
        assert!(!is_trusted(check, &bundle).await);
    }

    // The previous CA is dropped.
    age(&client, 1, 180, 364).await?;
    wait_until("one is trusted", WAIT_TIMEOUT, async || {
        Ok((trusted(&client).await? == 1).then_some(()))
    })
    .await?;
    let before = answers.load(Ordering::Relaxed);
    wait_until("it goes on", WAIT_TIMEOUT, async || {
        Ok((answers.load(Ordering::Relaxed) > before + 3).then_some(()))
    })
    .await?;
    ended.store(true, Ordering::Relaxed);
    asking.await??;
    one.stop().await;
    two.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_cas_are_replaced() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    operator_kinds(&client).await?;
    let garbage = serde_json::from_value(json!({
        "metadata": { "name": SECRET },
        "data": { "authorities.json": base64::engine::general_purpose::STANDARD.encode("[{]") },
    }))?;
    secrets(&client)
        .create(&PostParams::default(), &garbage)
        .await?;
    let (check, bundle) = replica(&client).await?;
    assert!(is_trusted(&check, &bundle).await);
    assert_eq!(pem(&authorities(&client).await?[0])?, bundle);
    Ok(())
}

fn pem(authority: &Value) -> anyhow::Result<String> {
    let certificate = authority["certificate"].as_str();
    Ok(certificate.context("a certificate")?.to_owned())
}

/// The CRD that approvals are about, and our namespace.
async fn operator_kinds(client: &Client) -> anyhow::Result<()> {
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let definition = api::advisor::definition();
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    runtime::wait_until_served(client, "virtplatformconfigs.advisor.kubevirt.io").await?;
    Ok(())
}

/// The author of a configuration as recorded by the webhook; an error if the webhook does not answer.
async fn author(client: &Client) -> anyhow::Result<Option<String>> {
    let configs: Api<api::advisor::VirtPlatformConfig> = Api::all(client.clone());
    let object = serde_json::from_value(json!({
        "metadata": { "name": "load-aware-rebalancing" },
        "spec": { "profile": "load-aware-rebalancing" },
    }))?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = configs.create(&dry_run, &object).await?;
    let annotations = made.metadata.annotations.unwrap_or_default();
    Ok(annotations.get("advisor.kubevirt.io/authors").cloned())
}

/// Whether a client that trusts only this CA trusts the webhook.
async fn is_trusted(check: &WebhookServer, authority: &str) -> bool {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    let connected = async {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = tokio::net::TcpStream::connect(check.address()).await?;
        let name = ServerName::try_from("localhost")?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await?;
        anyhow::Ok(())
    };
    connected.await.is_ok()
}
