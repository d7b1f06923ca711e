//! Receivers are notified of phases: once, signed, and without delaying plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::Phase;
use api::approval::ApprovalPolicy;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::Api;
use kube::api::{ListParams, Patch};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{by, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{LOAD_AWARE, NAMESPACE, Stage, WAIT_TIMEOUT};

/// A request to a receiver.
#[derive(Debug, Clone)]
struct Received {
    path: String,
    headers: BTreeMap<String, String>,
    text: String,
    body: Value,
}

/// A web server that records what it receives.
struct Receiver {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    status: Arc<Mutex<u16>>,
}

impl Receiver {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (received, status) = (Arc::default(), Arc::new(Mutex::new(200)));
        let (log, answer) = (Arc::clone(&received), Arc::clone(&status));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &log, &answer).await });
            }
        });
        Ok(Self {
            url,
            received,
            status,
        })
    }

    /// The bodies received at a path.
    fn at(&self, path: &str) -> Vec<Received> {
        let received = self.received.lock();
        let at = received.iter().filter(|request| request.path == path);
        at.cloned().collect()
    }

    async fn until(&self, path: &str, count: usize) -> anyhow::Result<Vec<Received>> {
        let what = format!("{count} requests at {path}");
        wait_until(&what, WAIT_TIMEOUT, async || {
            let received = self.at(path);
            Ok((received.len() >= count).then_some(received))
        })
        .await
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Received>>,
    answer: &Mutex<u16>,
) -> Option<()> {
    let mut read = Vec::new();
    let (head, body) = loop {
        stream
            .read_buf(&mut read)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or_default() {
            break (head.to_owned(), body.to_owned());
        }
    };
    let headers = head.lines().skip(1).filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_lowercase(), value.to_owned()))
    });
    log.lock().push(Received {
        path: head.split(' ').nth(1)?.to_owned(),
        headers: headers.collect(),
        body: serde_json::from_str(&body).ok()?,
        text: body,
    });
    let status = *answer.lock();
    let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(response.as_bytes()).await.ok()
}

async fn notify(stage: &Stage, receiver: &Receiver) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "medley-notifications" },
        "stringData": {
            "events.url": format!("{}/events\n", receiver.url),
            "events.key": "s3cret",
            "chat.url": format!("{}/chat", receiver.url),
        },
    });
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client(), NAMESPACE);
    let admin = by("admin").force();
    secrets
        .patch("medley-notifications", &admin, &Patch::Apply(secret))
        .await?;
    let policy = json!({
        "apiVersion": "medley.dev/v1alpha1", "kind": "ApprovalPolicy",
        "metadata": { "name": "production" },
        "spec": { "requiredApprovals": 0, "notifications": [
            { "name": "events", "consoleURL": "https://medley.example.com" },
            { "name": "chat", "format": "Slack", "phases": ["Completed"] },
        ] },
    });
    let policies: Api<ApprovalPolicy> = Api::all(stage.cluster.client());
    policies
        .patch("production", &admin, &Patch::Apply(policy))
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_are_notified_once_and_signed() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    let receiver = Receiver::start().await?;
    notify(&stage, &receiver).await?;
    let options = json!({ "loadAware": { "enablePSIMetrics": false } });
    let edit = json!({ "action": "DryRun", "options": options });
    stage.edit(LOAD_AWARE, edit).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let received = receiver.until("/events", 1).await?;
    let event = &received[0];
    assert_eq!(
        event.headers["content-type"],
        "application/cloudevents+json"
    );
    assert_eq!(event.body["type"], "dev.medley.governance.ReviewRequired");
    assert_eq!(event.body["data"]["planDigest"], json!(status.plan_digest));
    assert_eq!(
        event.body["data"]["link"],
        "https://medley.example.com/governance/load-aware-rebalancing#plan"
    );
    // As a receiver verifies it.
    let signed = &event.headers["medley-signature"];
    let seconds = signed
        .split(['=', ','])
        .nth(1)
        .unwrap_or_default()
        .parse()?;
    let at = jiff::Timestamp::from_second(seconds)?;
    let expected = governance::notifications::signature(b"s3cret", at, event.text.as_bytes());
    assert_eq!(*signed, expected);
    assert!(jiff::Timestamp::now().duration_since(at).as_secs() < 60);

    // A restart repeats nothing, and the other receiver has not subscribed to this phase.
    stage.operator("v0.1.30").await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    let chat = receiver.until("/chat", 1).await?;
    assert_eq!(
        chat[0].body["text"],
        "load-aware-rebalancing: everything is in force"
    );
    assert!(
        !chat[0].headers.contains_key("medley-signature"),
        "it has no key"
    );
    assert_eq!(receiver.at("/events").len(), 1);
    assert!(
        stage.metrics().contains(
            "medley_governance_notifications_total{receiver=\"chat\",result=\"success\"} 1"
        )
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_delivery_is_reported_and_repeated() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    let receiver = Receiver::start().await?;
    *receiver.status.lock() = 500;
    notify(&stage, &receiver).await?;
    let options = json!({ "loadAware": { "enablePSIMetrics": false } });
    let edit = json!({ "action": "DryRun", "options": options });
    stage.edit(LOAD_AWARE, edit).await?;
    // Neither the plan nor its review waits for the receiver.
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let attempts = receiver.until("/events", 2).await?;
    assert_eq!(
        attempts[0].body["id"], attempts[1].body["id"],
        "receivers recognise it"
    );
    let events: Api<Event> = Api::namespaced(stage.cluster.client(), "default");
    let message = wait_until("the failure is reported", WAIT_TIMEOUT, async || {
        let listed = events.list(&ListParams::default()).await?;
        let mut failed = listed.items.into_iter();
        let failed = failed.find(|event| event.reason.as_deref() == Some("NotificationFailed"));
        Ok(failed.and_then(|event| event.message))
    })
    .await?;
    assert!(
        message.contains("receiver events: the server answered 500"),
        "{message}"
    );
    assert!(
        !message.contains(&receiver.url),
        "a URL may be a secret: {message}"
    );
    *receiver.status.lock() = 204;
    wait_until("it is delivered", WAIT_TIMEOUT, async || {
        let delivered = stage.metrics().contains(
            "medley_governance_notifications_total{receiver=\"events\",result=\"success\"} 1",
        );
        Ok(delivered.then_some(()))
    })
    .await
}
