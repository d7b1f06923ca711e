//! Files on web servers, well-behaved and not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test may fail as the test does"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use oci::{
    Cause, Client, Credential, Error, FileVersion, Headers, Keyring, Roots, Routes, Settings,
    WebFile,
};
use platform::Source;
use testkit::{FaultyServer, Registry, RegistryOptions, ScriptedResponse};

fn client() -> Client {
    let mut settings = Settings::for_user(Roots::none());
    settings.retry.first = Duration::from_millis(2);
    settings.retry.longest = Duration::from_millis(10);
    settings.retry.chance = Arc::new(|| 0.0);
    settings.blob_limit = 16 << 20;
    Client::new(settings, Routes::direct())
}

fn at(url: &str) -> WebFile {
    let Ok(Source::Web(address)) = url.parse() else {
        panic!("{url}");
    };
    WebFile {
        address,
        headers: Headers::default(),
    }
}

fn of(server: &FaultyServer) -> WebFile {
    at(&format!("http://{}/disk.img", server.host()))
}

async fn look(client: &Client, file: &WebFile) -> Result<FileVersion, Error> {
    client.look(file, &Keyring::anonymous()).await
}

/// All bytes of a file.
async fn whole(client: &Client, file: &WebFile) -> Result<Vec<u8>, Error> {
    let version = look(client, file).await?;
    rest(client, file, &version).await
}

async fn rest(client: &Client, file: &WebFile, version: &FileVersion) -> Result<Vec<u8>, Error> {
    let mut stream = client.file(file, version, &Keyring::anonymous(), 0)?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

fn data() -> Vec<u8> {
    (0..3_u32 << 20)
        .map(|at| (at / 7).to_le_bytes()[0])
        .collect()
}

fn served() -> testkit::WebFile {
    testkit::WebFile::new(data(), "one")
}

#[tokio::test]
async fn unchanged_file_costs_an_empty_response() {
    let newer = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&newer);
    let server = FaultyServer::start(move |asked| {
        let etag = ["one", "two"][switch.load(Ordering::Relaxed)];
        testkit::WebFile::new(data(), etag).answer(asked)
    })
    .await
    .unwrap();
    let client = client();
    let file = of(&server);
    let first = look(&client, &file).await.unwrap();
    assert_eq!(first.etag.as_deref(), Some("\"one\""));
    assert_eq!(first.length, Some(3 << 20));
    assert!(!first.moved);
    assert_eq!(look(&client, &file).await.unwrap(), first);
    newer.store(1, Ordering::Relaxed);
    let other = look(&client, &file).await.unwrap();
    assert_eq!(other.etag.as_deref(), Some("\"two\""));
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "one question each");
    assert!(asked.iter().all(|asked| asked.method == "HEAD"));
    assert_eq!(asked[0].header("if-none-match"), None);
    assert_eq!(asked[1].header("if-none-match"), Some("\"one\""));
}

#[tokio::test]
async fn server_without_head_gets_a_one_byte_range() {
    let server = FaultyServer::start(|asked| {
        if asked.method == "HEAD" {
            return ScriptedResponse::answer(403, "signed for GET");
        }
        served().answer(asked)
    })
    .await
    .unwrap();
    let client = client();
    let version = look(&client, &of(&server)).await.unwrap();
    assert_eq!(version.length, Some(3 << 20));
    assert_eq!(look(&client, &of(&server)).await.unwrap(), version);
    assert_eq!(whole(&client, &of(&server)).await.unwrap(), data());
}

/// Answers with a body that breaks off after this many bytes, the first two times.
async fn breaking(
    then: fn(&testkit::Asked) -> ScriptedResponse,
    file: testkit::WebFile,
) -> FaultyServer {
    let breaks = AtomicUsize::new(0);
    FaultyServer::start(move |asked| {
        if asked.method == "HEAD" {
            return file.answer(asked);
        }
        match breaks.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let part = file.bytes.slice(..1 << 20);
                file.stamped(ScriptedResponse::cut(200, part, file.bytes.len()))
            }
            _ => then(asked),
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn interrupted_file_is_resumed() {
    let server = breaking(|asked| served().answer(asked), served()).await;
    assert_eq!(whole(&client(), &of(&server)).await.unwrap(), data());
    let asked = server.asked();
    let again = asked.last().unwrap();
    assert_eq!(again.header("if-range"), Some("\"one\""));
    assert_eq!(again.offset(), 1 << 20);
    // A server without range support sends the whole file again.
    let server = breaking(
        |_| served().stamped(ScriptedResponse::answer(200, data())),
        served(),
    )
    .await;
    assert_eq!(whole(&client(), &of(&server)).await.unwrap(), data());
}

#[tokio::test]
async fn versions_are_never_mixed() {
    let server = breaking(
        |asked| testkit::WebFile::new(vec![7; 3 << 20], "two").answer(asked),
        served(),
    )
    .await;
    let error = whole(&client(), &of(&server)).await.unwrap_err();
    assert!(
        error.to_string().contains("changed while it was read"),
        "{error}"
    );
    // Without validators an interrupted file is not resumed.
    let mut nameless = served();
    (nameless.etag, nameless.modified) = (None, None);
    let server = breaking(|_| ScriptedResponse::answer(200, data()), nameless).await;
    let error = whole(&client(), &of(&server)).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Truncated { .. }), "{error}");
    // A file that changed between the version check and the read is not read.
    let server = FaultyServer::start(|asked| {
        let etag = if asked.method == "HEAD" { "one" } else { "two" };
        testkit::WebFile::new(data(), etag).answer(asked)
    })
    .await
    .unwrap();
    let error = whole(&client(), &of(&server)).await.unwrap_err();
    assert!(error.to_string().contains("the file changed"), "{error}");
}

#[tokio::test]
async fn secret_headers_are_not_sent_to_other_hosts() {
    let mirror = FaultyServer::start(|asked| served().answer(asked))
        .await
        .unwrap();
    let to = format!("http://{}/elsewhere", mirror.host());
    let server = FaultyServer::start(move |_| ScriptedResponse::redirect(&to))
        .await
        .unwrap();
    let client = client();
    let mut file = of(&server);
    file.headers = Headers::read(["X-Token: secret"]).unwrap();
    let credential = Credential::password("me", "hunter2");
    let keyring = Keyring::for_host(&server.host(), credential);
    let version = client.look(&file, &keyring).await.unwrap();
    assert!(version.moved);
    let mut stream = client.file(&file, &version, &keyring, 0).unwrap();
    let mut length = 0;
    while let Some(piece) = stream.next().await {
        length += piece.unwrap().len();
    }
    assert_eq!(length, data().len());
    for asked in server.asked() {
        assert_eq!(
            asked.header("authorization"),
            Some("Basic bWU6aHVudGVyMg==")
        );
        assert_eq!(asked.header("x-token"), Some("secret"));
    }
    for asked in mirror.asked() {
        assert_eq!(asked.header("authorization"), None);
        assert_eq!(asked.header("x-token"), None);
    }
}

#[tokio::test]
async fn failures_have_causes() {
    for (answer, reason) in [
        (ScriptedResponse::answer(404, ""), "NotFound"),
        (ScriptedResponse::answer(401, ""), "PullUnauthorized"),
        (ScriptedResponse::answer(410, ""), "ServerError"),
        (ScriptedResponse::closed(), "Unreachable"),
        (
            ScriptedResponse::answer(429, "").with("Retry-After", "3600"),
            "RateLimited",
        ),
        (ScriptedResponse::redirect("ftp://example.com/x"), "Refused"),
        (ScriptedResponse::redirect("/disk.img"), "Refused"),
    ] {
        let server = FaultyServer::start(move |_| answer.clone()).await.unwrap();
        let error = look(&client(), &of(&server)).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains("/disk.img"), "{error}");
    }
}

#[tokio::test]
async fn a_file_has_limits() {
    let server = FaultyServer::start(|asked| {
        if asked.method == "HEAD" {
            return ScriptedResponse::answer(200, "").with("ETag", "\"x\"");
        }
        ScriptedResponse::endless(Bytes::from(vec![1; 1 << 20])).with("ETag", "\"x\"")
    })
    .await
    .unwrap();
    let version = FileVersion {
        etag: Some("\"x\"".to_owned()),
        ..FileVersion::default()
    };
    let error = rest(&client(), &of(&server), &version).await.unwrap_err();
    assert_eq!(error.reason(), "TooLarge", "{error}");
}

#[tokio::test]
async fn a_real_server_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let mut layout = testkit::Layout::new(folder.path()).unwrap();
    let image = layout
        .image("amd64", &[&data()], &serde_json::json!({}))
        .unwrap();
    layout.name("x", &image).unwrap();
    let registry = Registry::start_with(RegistryOptions {
        password: true,
        tls: None,
    })
    .await
    .unwrap();
    registry.push(&layout.source("x"), "disks/x:1").unwrap();
    let digest = platform::Digest::sha256(&data());
    let file = at(&format!(
        "http://{}/v2/disks/x/blobs/{digest}",
        registry.host()
    ));
    let client = client();
    let error = look(&client, &file).await.unwrap_err();
    assert_eq!(error.reason(), "PullUnauthorized", "{error}");
    let credential = Credential::password(testkit::USERNAME, testkit::PASSWORD);
    let keyring = Keyring::for_host(&registry.host(), credential);
    let version = client.look(&file, &keyring).await.unwrap();
    assert_eq!(version.length, Some(3 << 20));
    assert!(version.etag.is_some());
    assert_eq!(client.look(&file, &keyring).await.unwrap(), version);
    for offset in [0, 1 << 20, (3 << 20) - 1] {
        let mut stream = client.file(&file, &version, &keyring, offset).unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let start = usize::try_from(offset).unwrap();
        assert!(bytes == data()[start..], "from {offset}");
    }
}
