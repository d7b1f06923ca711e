//! The webhook server: forged reviews, exhausted connections, honest readiness.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::{
    Layout, PASSWORD, Process, Registry, RegistryOptions, ServedCluster, TestCluster, TlsClient,
    USERNAME, WEBHOOK_CALLER, free_port, wait_until,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// Limit of a single response, on a busy host.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The registration, and the Lease of the controller.
const PLACEMENT: &str = "medley-placement";
const NAMESPACE: &str = "medley-system";

/// `medley webhook` with placement.
struct Webhook {
    process: Process,
    address: SocketAddr,
    health: SocketAddr,
}

impl Webhook {
    /// Starts the process with additional arguments.
    fn start(kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let port = || anyhow::Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let (address, health) = (port()?, port()?);
        let folder = folder.join(format!("webhook-{}", address.port()));
        std::fs::create_dir_all(&folder)?;
        let common = [
            "webhook".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--address={address}"),
            format!("--health-address={health}"),
            format!("--register=url=https://{address}"),
            "--controllers=placement".to_owned(),
            // The test registry is on loopback.
            "--allow-address=127.0.0.1".to_owned(),
        ];
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        let arguments = common.into_iter().chain(arguments);
        Ok(Self {
            process: Process::start(Path::new(MEDLEY), arguments, &folder)?,
            address,
            health,
        })
    }

    /// Like [`Self::ready`], beside a placement controller: without one, no pod is gated. The controller ends with the
    /// returned guard.
    async fn gating(
        cluster: &TestCluster,
        served: &ServedCluster,
        arguments: &[&str],
    ) -> anyhow::Result<(Self, RenewedLease)> {
        let lease = RenewedLease::start(cluster.client()).await?;
        let webhook = Self::ready(served, &[arguments, &["-v"]].concat()).await?;
        wait_until("the webhook observes a controller", WAIT_TIMEOUT, || {
            let output = webhook.process.output();
            async move {
                let is_observed = output.contains("a placement controller is running");
                Ok(is_observed.then_some(()))
            }
        })
        .await?;
        Ok((webhook, lease))
    }

    /// Starts the process and waits until it is ready.
    async fn ready(served: &ServedCluster, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut webhook = Self::start(&served.kubeconfig, served.folder(), arguments)?;
        wait_until("the webhook is ready", WAIT_TIMEOUT, || {
            let (ended, health) = (webhook.process.ended(), webhook.health);
            let output = webhook.process.output();
            async move {
                ensure!(ended?.is_none(), "{output}");
                let probe = probe(health, "/readyz").await.ok();
                Ok(probe.filter(|(code, _)| *code == 200))
            }
        })
        .await?;
        Ok(webhook)
    }
}

/// The Lease of a placement controller, renewed until this is dropped.
struct RenewedLease(AbortHandle);

impl RenewedLease {
    async fn start(client: Client) -> anyhow::Result<Self> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let params = PatchParams::apply("test");
        namespaces
            .patch(NAMESPACE, &params, &Patch::Apply(namespace))
            .await?;
        let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
        let renewing = async move {
            loop {
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": { "name": PLACEMENT },
                    "spec": {
                        "holderIdentity": "controller", "leaseDurationSeconds": 30,
                        "renewTime": MicroTime(Timestamp::now()),
                    },
                });
                // The next round repeats a failed one; without any, the test fails.
                let _ = leases.patch(PLACEMENT, &params, &Patch::Apply(lease)).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        Ok(Self(tokio::spawn(renewing).abort_handle()))
    }
}

impl Drop for RenewedLease {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The response to a probe over plain HTTP.
async fn probe(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        let code = head.split(' ').nth(1).context("a status")?.parse()?;
        anyhow::Ok((code, body.to_owned()))
    };
    tokio::time::timeout(RESPONSE_TIMEOUT, asked).await?
}

/// The CA bundle of the webhook registration.
async fn authority(client: &Client) -> anyhow::Result<String> {
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let registration = registrations.get(PLACEMENT).await?;
    let hook = registration.webhooks.into_iter().flatten().next();
    let bundle = hook.and_then(|hook| hook.client_config.ca_bundle);
    Ok(String::from_utf8(bundle.context("a CA")?.0)?)
}

/// Nodes of two architectures.
async fn nodes(client: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for architecture in ["amd64", "arm64"] {
        let node = json!({ "metadata": { "name": architecture, "labels": {
            "kubernetes.io/arch": architecture, "kubernetes.io/os": "linux",
        } } });
        let params = PostParams::default();
        nodes
            .create(&params, &serde_json::from_value(node)?)
            .await?;
    }
    Ok(())
}

/// An AdmissionReview for the creation of a pod in this namespace.
fn review(namespace: &str, image: &str, secret: &str) -> Vec<u8> {
    let pod = json!({
        "metadata": { "name": "forged", "namespace": namespace },
        "spec": {
            "imagePullSecrets": [{ "name": secret }],
            "containers": [{ "name": "a", "image": image }],
        },
    });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": { "username": "mallory" },
            // The caller's own statements must not count.
            "caller": "Verified",
            "object": pod,
        },
    });
    review.to_string().into_bytes()
}

/// The mutation of the pod in a review.
async fn answer(webhook: &Webhook, client: &TlsClient, review: &[u8]) -> anyhow::Result<String> {
    let asked = client.send(webhook.address, "POST", "/placement", review);
    let (code, body) = tokio::time::timeout(RESPONSE_TIMEOUT, asked).await??;
    ensure!(code == 200, "{code}: {body}");
    let body: Value = serde_json::from_str(&body)?;
    let patch = body["response"]["patch"].as_str().unwrap_or_default();
    Ok(String::from_utf8(STANDARD.decode(patch)?)?)
}

/// A private registry with an arm64 image, and a namespace with the pull secret for it.
async fn victim(cluster: &TestCluster) -> anyhow::Result<(Registry, String, Vec<u8>)> {
    let options = RegistryOptions {
        password: true,
        ..RegistryOptions::default()
    };
    let registry = Registry::start_with(options).await?;
    let folder = tempfile::tempdir()?;
    let mut layout = Layout::new(&folder.path().join("layout"))?;
    let image = layout.image("arm64", &[b"private"], &json!({}))?;
    layout.name("private", &image)?;
    registry.push(&layout.source("private"), "victim/private:1")?;
    let namespace = cluster.namespace("victim").await?;
    let auth = STANDARD.encode(format!("{USERNAME}:{PASSWORD}"));
    let auths = json!({ "auths": { registry.host(): { "auth": auth } } });
    let secret = json!({
        "metadata": { "name": "pull" }, "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": auths.to_string() },
    });
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
    let params = PostParams::default();
    secrets
        .create(&params, &serde_json::from_value(secret)?)
        .await?;
    let image = format!("{}/victim/private:1", registry.host());
    let review = review(&namespace, &image, "pull");
    Ok((registry, image, review))
}

/// Responses of the registry since an index of its log.
fn since(registry: &Registry, before: usize) -> Vec<(String, u16)> {
    registry.answers().split_off(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_review_does_not_use_pull_secrets_of_the_namespace_it_names() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    nodes(&cluster.client()).await?;
    let (registry, _, review) = victim(&cluster).await?;
    let ca = served.folder().join("client-ca.crt");
    std::fs::write(&ca, cluster.root_ca())?;
    let insecure = format!("--insecure={}", registry.host());
    let client_ca = format!("--client-ca={}", ca.display());
    let client_name = format!("--client-name={WEBHOOK_CALLER}");
    let arguments = [insecure.as_str(), &client_ca, &client_name];
    let (webhook, _lease) = Webhook::gating(&cluster, &served, &arguments).await?;
    let authority = authority(&cluster.client()).await?;

    let anonymous = TlsClient::new(&authority, None)?;
    // Certificates of other users of the cluster: with another name, and from another CA.
    let (certificate, key) = cluster.client_certificate("system:node:a")?;
    let kubelet = TlsClient::new(&authority, Some((&certificate, &key)))?;
    let (certificate, key, _) = testkit::certificate()?;
    let stranger = TlsClient::new(&authority, Some((&certificate, &key)))?;
    let forgers = [&anonymous, &kubelet, &stranger];

    let pushed = registry.answers().len();
    for forger in forgers {
        let patch = answer(&webhook, forger, &review).await?;
        assert!(patch.contains("schedulingGates"), "{patch}");
        assert!(!patch.contains("nodeAffinity"), "{patch}");
    }
    wait_until("the registry was asked", WAIT_TIMEOUT, async || {
        Ok((!since(&registry, pushed).is_empty()).then_some(()))
    })
    .await?;

    // With the API server's certificate the secret is used.
    let (certificate, key) = cluster.client_certificate(WEBHOOK_CALLER)?;
    let server = TlsClient::new(&authority, Some((&certificate, &key)))?;
    let before = since(&registry, pushed);
    assert!(before.iter().all(|(_, code)| *code == 401), "{before:?}");
    wait_until("the image is known", WAIT_TIMEOUT, async || {
        let patch = answer(&webhook, &server, &review).await?;
        Ok(patch.contains("arm64").then_some(()))
    })
    .await?;
    let used = since(&registry, pushed);
    assert!(used.iter().any(|(_, code)| *code == 200), "{used:?}");

    // The cached result is not used for other callers.
    let asked = registry.answers().len();
    for forger in forgers {
        let patch = answer(&webhook, forger, &review).await?;
        assert!(patch.contains("schedulingGates"), "{patch}");
        assert!(!patch.contains("nodeAffinity"), "{patch}");
    }
    let later = since(&registry, asked);
    assert!(later.iter().all(|(_, code)| *code == 401), "{later:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_without_a_client_ca_never_uses_pull_secrets() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    nodes(&cluster.client()).await?;
    let (registry, _, review) = victim(&cluster).await?;
    let insecure = format!("--insecure={}", registry.host());
    // The ConfigMap that clusters may or may not have.
    let absent = "--client-ca-configmap=kube-system/no-such-configmap";
    let arguments = [insecure.as_str(), absent];
    let (webhook, _lease) = Webhook::gating(&cluster, &served, &arguments).await?;
    let (_, ready) = probe(webhook.health, "/readyz?verbose").await?;
    assert!(
        ready.contains("[+]client-ca ok: no caller can be verified"),
        "{ready}"
    );
    let authority = authority(&cluster.client()).await?;
    let (certificate, key) = cluster.client_certificate(WEBHOOK_CALLER)?;
    let server = TlsClient::new(&authority, Some((&certificate, &key)))?;
    let pushed = registry.answers().len();
    for _ in 0..3 {
        let patch = answer(&webhook, &server, &review).await?;
        assert!(patch.contains("schedulingGates"), "{patch}");
        wait_until("the registry was asked", WAIT_TIMEOUT, async || {
            Ok((!since(&registry, pushed).is_empty()).then_some(()))
        })
        .await?;
    }
    let asked = since(&registry, pushed);
    assert!(asked.iter().all(|(_, code)| *code == 401), "{asked:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn required_client_certificate_keeps_other_callers_out() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let ca = served.folder().join("client-ca.crt");
    std::fs::write(&ca, cluster.root_ca())?;
    let client_ca = format!("--client-ca={}", ca.display());
    let client_name = format!("--client-name={WEBHOOK_CALLER}");
    let arguments = [client_ca.as_str(), &client_name, "--require-client-cert"];
    let webhook = Webhook::ready(&served, &arguments).await?;
    let authority = authority(&cluster.client()).await?;
    let review = review("default", "registry.invalid/a:1", "pull");
    for (user, expected) in [
        (None, 401),
        (Some("system:node:a"), 403),
        (Some(WEBHOOK_CALLER), 200),
    ] {
        let identity = user.map(|user| cluster.client_certificate(user));
        let identity = identity.transpose()?;
        let identity = identity
            .as_ref()
            .map(|(it, key)| (it.as_str(), key.as_str()));
        let client = TlsClient::new(&authority, identity)?;
        for path in ["/placement", "/admit", "/cpu-models"] {
            let asked = client.send(webhook.address, "POST", path, &review);
            let (code, body) = tokio::time::timeout(RESPONSE_TIMEOUT, asked).await??;
            assert_eq!(code, expected, "{user:?} {path}: {body}");
        }
        // Probes have no certificate.
        let (code, _) = client.send(webhook.address, "GET", "/readyz", b"").await?;
        assert_eq!(code, 200, "{user:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_starve_neither_probes_nor_reviews() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    nodes(&cluster.client()).await?;
    let (webhook, _lease) = Webhook::gating(&cluster, &served, &[]).await?;
    let client = TlsClient::new(&authority(&cluster.client()).await?, None)?;
    // Some send nothing, some complete the handshake and send nothing, some start a request and never end it.
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(webhook.address).await?);
        idle.push(TcpStream::connect(webhook.health).await?);
    }
    let mut shaken = Vec::new();
    for number in 0..30 {
        let mut stream = client.connect(webhook.address).await?;
        if number % 2 == 0 {
            stream
                .write_all(b"POST /placement HTTP/1.1\r\nhost:")
                .await?;
        }
        shaken.push(stream);
    }
    for path in ["/livez", "/healthz", "/readyz"] {
        let (code, body) = probe(webhook.health, path).await?;
        assert_eq!(code, 200, "{path}: {body}");
        let asked = client.send(webhook.address, "GET", path, b"");
        let (code, body) = tokio::time::timeout(RESPONSE_TIMEOUT, asked).await??;
        assert_eq!(code, 200, "{path}: {body}");
    }
    let review = review("default", "registry.invalid/a:1", "pull");
    let patch = answer(&webhook, &client, &review).await?;
    assert!(patch.contains("schedulingGates"), "{patch}");
    drop((idle, shaken));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_that_cannot_reach_the_api_server_is_not_ready() -> anyhow::Result<()> {
    // A listener that accepts and never responds.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let url = format!("https://{}", silent.local_addr()?);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{ "name": "a", "cluster": { "server": url, "insecure-skip-tls-verify": true } }],
        "users": [{ "name": "a", "user": { "token": "none" } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let webhook = Webhook::start(&kubeconfig, folder.path(), &["--tls-secret=authority"])?;
    wait_until("it lives", WAIT_TIMEOUT, async || {
        let probe = probe(webhook.health, "/livez").await.ok();
        Ok(probe.filter(|(code, _)| *code == 200))
    })
    .await?;
    let (code, body_text) = probe(webhook.health, "/readyz?verbose").await?;
    assert_eq!(code, 503, "{body_text}");
    for line in [
        "[-]certificate failed: the serving certificate is not loaded",
        "[-]registration failed: the webhook is not registered yet",
        "[+]shutdown ok",
        "readyz check failed",
    ] {
        assert!(
            body_text.lines().any(|it| it == line),
            "{line} in {body_text}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_registration_and_ends_with_shutdown() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    nodes(&cluster.client()).await?;
    let webhook = Webhook::ready(&served, &[]).await?;
    let (_, body_text) = probe(webhook.health, "/readyz?verbose").await?;
    for line in ["[+]certificate ok", "[+]caches ok", "[+]registration ok"] {
        assert!(
            body_text.lines().any(|it| it == line),
            "{line} in {body_text}"
        );
    }

    let client = TlsClient::new(&authority(&cluster.client()).await?, None)?;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    let right = registrations.get(PLACEMENT).await?;
    let mut wrong = serde_json::to_value(&right.webhooks)?;
    let (_, _, another) = testkit::certificate()?;
    wrong[0]["clientConfig"]["caBundle"] = STANDARD.encode(another).into();
    for (webhooks, expected) in [(wrong, 503), (serde_json::to_value(&right.webhooks)?, 200)] {
        let patch = Patch::Merge(json!({ "webhooks": webhooks }));
        let params = PatchParams::default();
        registrations.patch(PLACEMENT, &params, &patch).await?;
        let body_text = wait_until("readiness changes", WAIT_TIMEOUT, async || {
            let (code, body_text) = probe(webhook.health, "/readyz").await?;
            Ok((code == expected).then_some(body_text))
        })
        .await?;
        assert_eq!(
            body_text.contains("trusts another CA"),
            expected == 503,
            "{body_text}"
        );
    }

    // A review in progress keeps the process alive, which reports shutdown.
    let mut slow = client.connect(webhook.address).await?;
    slow.write_all(b"POST /placement HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
        .await?;
    // This later request is answered only after the connection of the review was accepted.
    let (code, _) = client.send(webhook.address, "GET", "/livez", b"").await?;
    assert_eq!(code, 200);
    let signalled = Command::new("kill")
        .args(["-TERM", &webhook.process.id().to_string()])
        .status()?;
    ensure!(signalled.success(), "kill: {signalled}");
    let body_text = wait_until("it reports shutdown", WAIT_TIMEOUT, async || {
        let (code, body_text) = probe(webhook.health, "/readyz").await?;
        Ok((code == 503).then_some(body_text))
    })
    .await?;
    assert!(body_text.contains("shutting down"), "{body_text}");
    Ok(())
}
