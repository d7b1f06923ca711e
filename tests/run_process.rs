//! The operator process: settings, logs, authorization of metrics, traces.

use std::future::pending;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use serde_json::Value;
use serving::{Incoming, Limits, text};
use testkit::{free_port, wait_until};
use tokio::net::TcpListener;

use crate::Operator;
use crate::binary::{stop, until};

/// Certificate files are polled every ten seconds.
const RELOAD_TIMEOUT: Duration = Duration::from_mins(1);

impl Operator {
    /// The status code of a PUT request.
    fn put(&self, path: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_override_the_settings_file() {
    let cluster = crate::cluster().await;
    let namespace = cluster.namespace("process").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let file = served.folder().join("settings.yaml");
    let settings = format!(
        "namespace: {namespace}\nleader-elect: false\nlog-format: json\nlog-level: error\nmetrics-auth: kubernetes\n"
    );
    std::fs::write(&file, settings).unwrap();
    let arguments = ["--config", file.to_str().unwrap(), "--log-level=info"];
    let mut operator = Operator::start(&served, "settings", &arguments);
    operator.is_ready();
    until("it works", || {
        let output = operator.process.output();
        output.lines().any(|line| line == "ready").then_some(())
    });
    assert!(crate::lease(&cluster.client(), &namespace).await.is_none());
    assert_eq!(operator.get("/metrics").unwrap().0, 401);
    assert_eq!(operator.get("/livez?verbose").unwrap().0, 200);

    // Loopback clients need no token.
    let (code, answer) = operator.get("/loglevel").unwrap();
    assert_eq!(code, 200, "{answer}");
    assert_eq!(operator.put("/loglevel", "loud=very"), 400);
    assert_eq!(operator.put("/loglevel", "debug"), 200);
    until("it is logged in JSON", || {
        let output = operator.process.output();
        let lines = output.lines().filter(|line| *line != "ready");
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut changed =
            lines.filter(|line| line["level"] == "INFO" && line["message"] == "log filter changed");
        changed.next()
    });
    assert_eq!(stop(&mut operator.process, "-TERM").code(), Some(0));
}

/// Flags of a single replica that serves metrics at an address, to authorized clients.
fn with_metrics<'a>(namespace: &'a str, address: &'a str) -> [&'a str; 6] {
    [
        "--leader-elect=false",
        "--namespace",
        namespace,
        "--metrics-auth=kubernetes",
        "--metrics-address",
        address,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_on_a_separate_tls_port() {
    let cluster = crate::cluster().await;
    let namespace = cluster.namespace("process").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let arguments = with_metrics(&namespace, &address);
    let mut operator = Operator::start(&served, "apart", &arguments);
    operator.is_ready();
    assert_eq!(operator.get("/metrics").unwrap().0, 404);

    let mut anybody = Config::new(format!("https://{address}").parse().unwrap());
    anybody.accept_invalid_certs = true;
    assert_eq!(code(&anybody, "/metrics").await.unwrap(), 401);
    assert_eq!(code(&anybody, "/livez").await.unwrap(), 404);
    assert_eq!(stop(&mut operator.process, "-TERM").code(), Some(0));
}

/// The status code of a request by a new client; an error if it does not trust the server.
async fn code(config: &Config, path: &str) -> Result<u16, kube::Error> {
    let client = Client::try_from(config.clone())?;
    let request = Request::get(path).body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error),
        Ok(_) => Ok(200),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_certificate_is_reloaded() {
    let cluster = crate::cluster().await;
    let namespace = cluster.namespace("process").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let [certificate, key] = ["metrics.crt", "metrics.key"].map(|name| served.folder().join(name));
    let renew = || renew(&certificate, &key, &address);
    let first = renew();
    let mut arguments = with_metrics(&namespace, &address).to_vec();
    arguments.extend(["--metrics-tls-cert", certificate.to_str().unwrap()]);
    arguments.extend(["--metrics-tls-key", key.to_str().unwrap()]);
    let mut operator = Operator::start(&served, "renewed", &arguments);
    operator.is_ready();
    assert_eq!(code(&first, "/metrics").await.unwrap(), 401);

    let second = renew();
    wait_until("the new certificate is used", RELOAD_TIMEOUT, async || {
        Ok(code(&second, "/metrics").await.ok())
    })
    .await
    .unwrap();
    code(&first, "/metrics").await.unwrap_err();
    assert_eq!(stop(&mut operator.process, "-TERM").code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn consoles_serve_tls_and_share_keys_in_a_secret() {
    let cluster = crate::cluster().await;
    let namespace = cluster.namespace("process").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let [certificate, key] = ["console.crt", "console.key"].map(|name| served.folder().join(name));
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let other_address = format!("127.0.0.1:{}", free_port().unwrap());
    let renew = || renew(&certificate, &key, &address);
    let first = renew();
    let start = |name: &str, address: &str| {
        let arguments = [
            "--namespace",
            &namespace,
            "--console",
            address,
            "--console-tls-cert",
            certificate.to_str().unwrap(),
            "--console-tls-key",
            key.to_str().unwrap(),
            "--console-session-secret=medley-console-keys",
        ];
        Operator::start(&served, name, &arguments)
    };
    let mut operator = start("console", &address);
    operator.is_ready();
    assert_eq!(code(&first, "/sign-in").await.unwrap(), 200);
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
    let keys = secrets.get("medley-console-keys").await.unwrap().data;
    // A standby replica serves, too, with the same keys.
    let mut standby = start("standby", &other_address);
    standby.is_ready();
    let again = secrets.get("medley-console-keys").await.unwrap().data;
    assert_eq!(keys, again);

    let second = renew();
    wait_until("the new certificate is used", RELOAD_TIMEOUT, async || {
        Ok(code(&second, "/sign-in").await.ok())
    })
    .await
    .unwrap();
    assert_eq!(stop(&mut operator.process, "-TERM").code(), Some(0));
    assert_eq!(stop(&mut standby.process, "-TERM").code(), Some(0));
}

/// Writes another certificate, and returns a client of the address that trusts only its issuer.
fn renew(certificate: &Path, key: &Path, address: &str) -> Config {
    let (own, own_key, authority) = testkit::certificate().unwrap();
    std::fs::write(certificate, own).unwrap();
    std::fs::write(key, own_key).unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![pem(&authority)]);
    config
}

/// The bytes of a certificate.
fn pem(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let joined: String = lines.collect();
    BASE64_STANDARD.decode(joined).unwrap()
}

/// All request bodies that the collector received.
type Sent = Arc<Mutex<Vec<Bytes>>>;

/// An OTLP collector, and its address.
async fn collector() -> (Sent, String) {
    let sent = Sent::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let limits = Limits {
        clients: 16,
        per_address: 16,
        streams: None,
        drain: Duration::ZERO,
    };
    let to = Arc::clone(&sent);
    let answer = move |request: Request<Incoming>| {
        let to = Arc::clone(&to);
        async move {
            assert_eq!(request.uri().path(), "/v1/traces");
            assert_eq!(request.headers()["content-type"], "application/json");
            let body = request.into_body().collect().await.unwrap();
            to.lock().push(body.to_bytes());
            text(StatusCode::OK, "{}")
        }
    };
    tokio::spawn(serving::serve(listener, None, limits, answer, pending()));
    (sent, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn reconciles_are_exported_as_traces() {
    let cluster = crate::cluster().await;
    let namespace = cluster.namespace("process").await.unwrap();
    let served = cluster.serve().await.unwrap();
    let (sent, url) = collector().await;
    let arguments = [
        "--leader-elect=false",
        "--namespace",
        &namespace,
        "--otlp-endpoint",
        &url,
    ];
    let mut operator = Operator::start(&served, "traced", &arguments);
    let span = until("a span comes", || {
        let all = sent.lock().clone();
        let bodies = all
            .iter()
            .map(|body| serde_json::from_slice::<Value>(body).unwrap());
        let mut spans = bodies.flat_map(|body| {
            let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.as_array().unwrap().clone()
        });
        spans.find(|span| span["name"] == "reconcile")
    });
    let attributes = span["attributes"].as_array().unwrap();
    let controller = attributes.iter().find(|it| it["key"] == "controller");
    let controller = controller.unwrap()["value"]["stringValue"].as_str();
    assert!(controller.unwrap().starts_with("medley-"), "{span}");
    assert_eq!(stop(&mut operator.process, "-TERM").code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_collector_does_not_keep_the_process() {
    let cluster = crate::cluster().await;
    let namespace = cluster.namespace("process").await.unwrap();
    let served = cluster.serve().await.unwrap();
    // Connections are established by the kernel; no request is answered.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let arguments = [
        "--leader-elect=false",
        "--namespace",
        &namespace,
        "--otlp-endpoint",
        &url,
    ];
    let mut operator = Operator::start(&served, "silent", &arguments);
    operator.is_ready();
    until("it reconciles", || {
        let reconciled = operator.metrics();
        let mut lines = reconciled.lines();
        lines
            .any(|line| line.starts_with("medley_reconcile_total") && !line.ends_with(" 0"))
            .then_some(())
    });
    assert_eq!(stop(&mut operator.process, "-TERM").code(), Some(0));
}
