//! Server-side request forgery: registries and web servers only, no internal addresses, no local files.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::cdi::DataImportCron;
use fleet::operators::{self, Installed};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::{FaultyServer, Process, ScriptedResponse, TestCluster, free_port, has, until};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
/// A header value that a tenant makes the operator send.
const TOKEN: &str = "planted-token-of-the-tenant";

/// A port that only loopback clients reach, like the metrics of another process or an agent of the node.
struct LoopbackListener(TcpListener);

impl LoopbackListener {
    fn listen() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    fn port(&self) -> anyhow::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Asserts that no client has connected, not even without sending a request.
    fn assert_not_contacted(&self) -> anyhow::Result<()> {
        match self.0.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => anyhow::bail!("a client connected to loopback: {other:?}"),
        }
    }
}

/// A FIFO: opening it blocks forever.
fn pipe(folder: &Path) -> anyhow::Result<String> {
    let path = folder.join("pipe");
    ensure!(Command::new("mkfifo").arg(&path).status()?.success());
    Ok(path.to_str().context("a path without letters")?.to_owned())
}

/// Sources that a tenant may write, and the expected error.
fn attacks(port: u16, redirecting: &str, pipe: &str) -> Vec<(Value, &'static str)> {
    let http = |url: String| {
        json!({ "http": { "url": url, "extraHeaders": [format!("X-Plain: {TOKEN}")],
            "secretExtraHeaders": ["headers"] } })
    };
    let registry = |url: String| json!({ "registry": { "url": url } });
    vec![
        (http(format!("http://127.0.0.1:{port}/x")), "loopback"),
        (http(format!("http://localhost:{port}/x")), "loopback"),
        (http(format!("http://2130706433:{port}/x")), "loopback"),
        (http(format!("http://0x7f.1:{port}/x")), "loopback"),
        (http(format!("http://[::1]:{port}/x")), "loopback"),
        (
            http(format!("http://[::ffff:127.0.0.1]:{port}/x")),
            "loopback",
        ),
        (http(format!("http://0.0.0.0:{port}/x")), "unspecified"),
        (http(format!("https://127.0.0.1:{port}/x")), "loopback"),
        (
            http("http://169.254.169.254/latest/meta-data/".to_owned()),
            "link-local",
        ),
        (
            http("http://[fd00:ec2::254]/latest/".to_owned()),
            "cloud metadata",
        ),
        (http(format!("http://{redirecting}/x")), "loopback"),
        (
            registry(format!("docker://127.0.0.1:{port}/x:1")),
            "loopback",
        ),
        (
            registry(format!("docker://localhost:{port}/x:1")),
            "loopback",
        ),
        (registry(format!("oci-archive://{pipe}")), "is not imported"),
        (
            registry("oci-archive:///etc/shadow".to_owned()),
            "is not imported",
        ),
        (registry(format!("oci:{pipe}")), "is not imported"),
        (http(format!("file://{pipe}")), "is not supported"),
    ]
}

fn condition(cron: &Value) -> (String, String) {
    let all = cron["status"]["conditions"].as_array();
    let found = all
        .into_iter()
        .flatten()
        .find(|it| it["type"] == "UpToDate");
    let text = |name: &str| {
        let text = found.and_then(|it| it[name].as_str());
        text.unwrap_or_default().to_owned()
    };
    (text("status"), text("message"))
}

#[tokio::test(flavor = "multi_thread")]
async fn data_import_crons_reach_no_inner_address_and_no_local_file() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let installed = Installed {
        cdi: true,
        ..Installed::default()
    };
    operators::install(&client, &installed).await?;
    controllers::install(&client, "medley-system").await?;
    let tenant = cluster.namespace("tenant").await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &tenant);
    let secret = json!({
        "metadata": { "name": "headers" }, "stringData": { "one": format!("X-Secret: {TOKEN}") },
    });
    let params = PostParams::default();
    secrets
        .create(&params, &serde_json::from_value(secret)?)
        .await?;

    let inner = LoopbackListener::listen()?;
    let port = inner.port()?;
    // A permitted server redirects to one that is not.
    let redirecting = FaultyServer::start(move |_| {
        ScriptedResponse::redirect(&format!("http://localhost:{port}/stolen"))
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let pipe = pipe(folder.path())?;

    let served = cluster.serve().await?;
    let health = format!("127.0.0.1:{}", free_port()?);
    let kubeconfig = served.kubeconfig.to_str().context("a path")?;
    let host = redirecting.host();
    let line = [
        "run",
        "-v",
        "--kubeconfig",
        kubeconfig,
        "--controllers",
        "images-cdi",
        "--health-address",
        &health,
        "--leader-elect=false",
        "--allow-address",
        &host,
    ];
    let mut operator = Process::start(Path::new(MEDLEY), line, folder.path())?;

    let crons: Api<DataImportCron> = Api::namespaced(client.clone(), &tenant);
    let attacks = attacks(port, &host, &pipe);
    for (place, (source, _)) in attacks.iter().enumerate() {
        let cron = json!({
            "metadata": { "name": format!("attack-{place}") },
            "spec": {
                "schedule": "0 */12 * * *",
                "managedDataSource": format!("stolen-{place}"),
                "template": { "spec": {
                    "source": source,
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                } },
            },
        });
        crons
            .create(&params, &serde_json::from_value(cron)?)
            .await?;
    }
    for (place, (source, why)) in attacks.iter().enumerate() {
        let name = format!("attack-{place}");
        let found = until(&crons, &name, "refused", WAIT_TIMEOUT, |it| {
            let (status, message) = condition(&json!(it));
            status == "False" && message.contains(why)
        })
        .await
        .with_context(|| format!("{source}: {}", operator.output()))?;
        let found = json!(found);
        let (_, message) = condition(&found);
        if why.ends_with("loopback") || why.ends_with("link-local") {
            has(&message, &[" address", "--allow-address "]);
        }
        assert!(!found["status"].to_string().contains(TOKEN), "{found}");
    }
    inner.assert_not_contacted()?;
    assert!(operator.ended()?.is_none());
    let printed = operator.output();
    assert!(!printed.contains(TOKEN), "{printed}");
    // The redirecting server was contacted; its redirect was not followed.
    assert!(!redirecting.asked().is_empty());
    Ok(())
}

/// An importer pod enforces the same rules: it may run for a DataVolume without a DataImportCron.
#[tokio::test(flavor = "multi_thread")]
async fn importer_pods_reach_no_inner_address_and_no_local_file() -> anyhow::Result<()> {
    let inner = LoopbackListener::listen()?;
    let port = inner.port()?;
    let redirecting = FaultyServer::start(move |_| {
        ScriptedResponse::redirect(&format!("http://localhost:{port}/stolen"))
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let pipe = pipe(folder.path())?;
    let log = folder.path().join("termination-log");
    let image = format!("docker://{}/x:1", redirecting.host());
    let image = json!({ "registry": { "url": image } });
    let mut sources = attacks(port, &redirecting.host(), &pipe);
    sources.push((image, "loopback"));
    for (source, _) in sources {
        let url = source.pointer("/http/url");
        let url = url.or_else(|| source.pointer("/registry/url"));
        let url = url
            .and_then(Value::as_str)
            .context("a source without URL")?;
        let insecure = url.starts_with("docker://").to_string();
        let ended = tokio::process::Command::new(MEDLEY)
            .arg("importer")
            .arg("--to")
            .arg(folder.path().join("disk.img"))
            .arg("--termination-log")
            .arg(&log)
            .args(["--metrics-address", "127.0.0.1:0"])
            .env_clear()
            .env("IMPORTER_ENDPOINT", url)
            .env("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "amd64")
            .env("IMPORTER_EXTRA_HEADER_0", format!("X-Plain: {TOKEN}"))
            .env("INSECURE_TLS", insecure)
            .env("MEDLEY_ALLOW_ADDRESS", redirecting.host())
            .stdin(Stdio::null())
            .output()
            .await?;
        assert_eq!(ended.status.code(), Some(1), "{url}: {ended:?}");
        let left: Value = serde_json::from_str(&std::fs::read_to_string(&log)?)?;
        assert_eq!(left["reason"], "ImportFailed", "{url}: {left}");
        let message = left["message"].as_str().unwrap_or_default();
        let expected = ["--allow-address ", "is a local file", "is not supported"];
        assert!(
            expected.iter().any(|it| message.contains(it)),
            "{url}: {message}"
        );
        assert!(!message.contains(TOKEN), "{message}");
    }
    inner.assert_not_contacted()
}
