//! Misbehaving registries: an incomplete image is never recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oci::Retry;
use platform::Digest;
use serde_json::{Value, json};
use testkit::{Asked, FaultyServer, ScriptedResponse, Tar, wait_until};
use tonic::Code;

use crate::node::{Node, Wishes, named, which};

/// An image as a registry would serve it.
struct Served {
    manifest: Vec<u8>,
    config: Vec<u8>,
    layer: Vec<u8>,
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

impl Served {
    fn new() -> Self {
        let noise: Vec<u8> = (0..300_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        let layer = Tar::new()
            .file("etc/which", 0o644, "served")
            .file("noise", 0o644, noise)
            .finish();
        let config = json!({
            "os": "linux",
            "architecture": "amd64",
            "rootfs": {"type": "layers", "diff_ids": [Digest::sha256(&layer)]},
        });
        Self::of(layer, &config)
    }

    fn of(layer: Vec<u8>, config: &Value) -> Self {
        let config = config.to_string().into_bytes();
        let describe = |kind: &str, bytes: &[u8]| {
            let kind = format!("application/vnd.oci.image.{kind}");
            json!({"mediaType": kind, "digest": Digest::sha256(bytes), "size": bytes.len()})
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": describe("config.v1+json", &config),
            "layers": [describe("layer.v1.tar", &layer)],
        });
        Self {
            manifest: manifest.to_string().into_bytes(),
            config,
            layer,
        }
    }

    fn is_layer(&self, asked: &Asked) -> bool {
        asked.path.ends_with(Digest::sha256(&self.layer).hash())
    }

    /// A correct response.
    fn answer(&self, asked: &Asked) -> ScriptedResponse {
        if asked.path.contains("/manifests/") {
            return ScriptedResponse::answer(200, self.manifest.clone())
                .with("Content-Type", MANIFEST);
        }
        if self.is_layer(asked) {
            return match asked.offset() {
                0 => ScriptedResponse::answer(200, self.layer.clone()),
                offset => {
                    let length = self.layer.len();
                    ScriptedResponse::answer(206, self.layer[offset..].to_vec()).with(
                        "Content-Range",
                        &format!("bytes {offset}-{}/{length}", length - 1),
                    )
                }
            };
        }
        ScriptedResponse::answer(200, self.config.clone())
    }
}

fn impatient() -> Retry {
    Retry {
        attempts: 2,
        resumes: 1,
        first: Duration::from_millis(1),
        patience: Duration::from_millis(10),
        ..Retry::default()
    }
}

fn node_for(server: &FaultyServer, folder: &std::path::Path) -> Node {
    let wishes = Wishes {
        plain: vec![server.host()],
        retry: Some(impatient()),
        ..Wishes::default()
    };
    Node::start(folder, wishes)
}

/// The response instead of a layer.
type Instead = fn(&Served) -> ScriptedResponse;

/// Broken layers: the reported error, and what is left of the download.
#[tokio::test(flavor = "multi_thread")]
async fn broken_layer_is_not_recorded_as_image() {
    let cases: [(Instead, Code, &str); 5] = [
        (
            |served| {
                let mut other = served.layer.clone();
                other[1000] ^= 1;
                ScriptedResponse::answer(200, other)
            },
            Code::DataLoss,
            "the content is sha256:",
        ),
        (
            |served| ScriptedResponse::cut(200, served.layer[..1000].to_vec(), served.layer.len()),
            Code::Unknown,
            "RegistryUnavailable: ",
        ),
        (
            |_| ScriptedResponse::answer(429, "").with("Retry-After", "3600"),
            Code::Unknown,
            "RegistryUnavailable: ",
        ),
        (
            |_| ScriptedResponse::answer(500, "broken"),
            Code::Unknown,
            "500",
        ),
        (
            |_| ScriptedResponse::answer(404, ""),
            Code::NotFound,
            "not found",
        ),
    ];
    for (misdeed, code, said) in cases {
        let served = Served::new();
        let good = Arc::new(AtomicBool::new(false));
        let is_good = Arc::clone(&good);
        let server = FaultyServer::start(move |asked| {
            if served.is_layer(asked) && !is_good.load(Ordering::Relaxed) {
                return misdeed(&served);
            }
            served.answer(asked)
        })
        .await
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let node = node_for(&server, folder.path());
        let image = format!("{}/a:1", server.host());
        let failed = node.client.pull(named(&image), None).await.unwrap_err();
        assert_eq!(failed.code(), code, "{failed}");
        testkit::has(failed.message(), &[said, &image]);
        assert_eq!(node.client.list(None).await.unwrap(), []);
        let unpacking = node.root.join("unpacking");
        wait_until("half a snapshot goes", Duration::from_secs(10), || async {
            Ok(std::fs::read_dir(&unpacking)?
                .next()
                .is_none()
                .then_some(()))
        })
        .await
        .unwrap();
        // Once the registry works again, the pull succeeds, except during a requested pause.
        good.store(true, Ordering::Relaxed);
        if said != "RegistryUnavailable: " {
            node.client.pull(named(&image), None).await.unwrap();
            assert_eq!(which(&node.client, named(&image)).await, "served");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_id_mismatch_is_rejected() {
    let layer = Tar::new().file("a", 0o644, "a").finish();
    let wrong = |diff_ids: Value| {
        let config = json!({
            "os": "linux", "architecture": "amd64",
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        Served::of(layer.clone(), &config)
    };
    for (served, said) in [
        (wrong(json!([Digest::sha256(b"else")])), "diff-id"),
        (wrong(json!([])), "diff_ids"),
    ] {
        let server = FaultyServer::start(move |asked| served.answer(asked))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let node = node_for(&server, folder.path());
        let image = format!("{}/a:1", server.host());
        let failed = node.client.pull(named(&image), None).await.unwrap_err();
        assert_eq!(failed.code(), Code::DataLoss, "{failed}");
        testkit::has(failed.message(), &[said]);
        assert_eq!(node.client.list(None).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_download_is_resumed_by_the_next_pull() {
    let served = Served::new();
    let slow = Arc::new(AtomicBool::new(true));
    let from = Arc::new(AtomicUsize::new(usize::MAX));
    let (is_slow, began) = (Arc::clone(&slow), Arc::clone(&from));
    let server = FaultyServer::start(move |asked| {
        if !served.is_layer(asked) {
            return served.answer(asked);
        }
        if is_slow.load(Ordering::Relaxed) {
            let pause = Duration::from_secs(30);
            return ScriptedResponse::trickling(200, served.layer.clone(), 200_000, pause);
        }
        began.store(asked.offset(), Ordering::Relaxed);
        served.answer(asked)
    })
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let node = node_for(&server, folder.path());
    let image = format!("{}/a:1", server.host());
    let ingest = node.root.join("ingest");
    let pulling = tokio::spawn({
        let (client, image) = (node.client.clone(), image.clone());
        async move { client.pull(named(&image), None).await }
    });
    wait_until("some of it has come", Duration::from_secs(20), || async {
        let found = std::fs::read_dir(&ingest)?.flatten();
        let sizes = found.filter_map(|entry| entry.metadata().ok());
        let enough = sizes.map(|found| found.len()).any(|size| size >= 200_000);
        Ok(enough.then_some(()))
    })
    .await
    .unwrap();
    pulling.abort();
    let _ = pulling.await;
    slow.store(false, Ordering::Relaxed);
    node.client.pull(named(&image), None).await.unwrap();
    assert_eq!(from.load(Ordering::Relaxed), 200_000);
    assert_eq!(which(&node.client, named(&image)).await, "served");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_registry_is_reported_as_registry_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let port = testkit::free_port().unwrap();
    let host = format!("127.0.0.1:{port}");
    let node = Node::start(
        folder.path(),
        Wishes {
            plain: vec![host.clone()],
            retry: Some(impatient()),
            ..Wishes::default()
        },
    );
    let image = format!("{host}/a:1");
    let failed = node.client.pull(named(&image), None).await.unwrap_err();
    assert_eq!(failed.code(), Code::Unknown);
    assert!(failed.message().starts_with("RegistryUnavailable: "));
    let nonsense = node.client.pull(named("UPPER CASE"), None).await;
    assert_eq!(nonsense.unwrap_err().code(), Code::InvalidArgument);
    let unnamed = node.client.pull(named(""), None).await.unwrap_err();
    assert_eq!(unnamed.code(), Code::InvalidArgument);
}
