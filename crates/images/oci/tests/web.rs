//! Files on web servers: those that behave, and those that do not.
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
use testkit::{HostileServer, Misdeed, Registry, RegistryOptions};

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

fn of(server: &HostileServer) -> WebFile {
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
async fn a_file_that_did_not_change_costs_an_empty_answer() {
    let newer = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&newer);
    let server = HostileServer::start(move |asked| {
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
async fn a_server_that_knows_no_head_is_asked_for_a_byte() {
    let server = HostileServer::start(|asked| {
        if asked.method == "HEAD" {
            return Misdeed::answer(403, "signed for GET");
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

/// Answers with what is broken off after so many bytes, the first two times.
async fn breaking(then: fn(&testkit::Asked) -> Misdeed, file: testkit::WebFile) -> HostileServer {
    let breaks = AtomicUsize::new(0);
    HostileServer::start(move |asked| {
        if asked.method == "HEAD" {
            return file.answer(asked);
        }
        match breaks.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let part = file.bytes.slice(..1 << 20);
                file.stamped(Misdeed::cut(200, part, file.bytes.len()))
            }
            _ => then(asked),
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn what_breaks_off_goes_on_where_it_did() {
    let server = breaking(|asked| served().answer(asked), served()).await;
    assert_eq!(whole(&client(), &of(&server)).await.unwrap(), data());
    let asked = server.asked();
    let again = asked.last().unwrap();
    assert_eq!(again.header("if-range"), Some("\"one\""));
    assert_eq!(again.offset(), 1 << 20);
    // A server that knows no ranges sends all of it once more.
    let server = breaking(|_| served().stamped(Misdeed::answer(200, data())), served()).await;
    assert_eq!(whole(&client(), &of(&server)).await.unwrap(), data());
}

#[tokio::test]
async fn two_versions_do_not_become_one_file() {
    let server = breaking(
        |asked| testkit::WebFile::new(vec![7; 3 << 20], "two").answer(asked),
        served(),
    )
    .await;
    let error = whole(&client(), &of(&server)).await.unwrap_err();
    assert!(
        error.to_string().contains("was changed while it was read"),
        "{error}"
    );
    // Nor is anything gone on with that nobody can tell the version of.
    let mut nameless = served();
    (nameless.etag, nameless.modified) = (None, None);
    let server = breaking(|_| Misdeed::answer(200, data()), nameless).await;
    let error = whole(&client(), &of(&server)).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Truncated { .. }), "{error}");
    // One that changed between looking and reading is not read.
    let server = HostileServer::start(|asked| {
        let etag = if asked.method == "HEAD" { "one" } else { "two" };
        testkit::WebFile::new(data(), etag).answer(asked)
    })
    .await
    .unwrap();
    let error = whole(&client(), &of(&server)).await.unwrap_err();
    assert!(error.to_string().contains("was changed"), "{error}");
}

#[tokio::test]
async fn secrets_stay_with_the_host_that_they_are_for() {
    let mirror = HostileServer::start(|asked| served().answer(asked))
        .await
        .unwrap();
    let to = format!("http://{}/elsewhere", mirror.host());
    let server = HostileServer::start(move |_| Misdeed::redirect(&to))
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
async fn what_is_wrong_has_a_name() {
    for (answer, reason) in [
        (Misdeed::answer(404, ""), "NotFound"),
        (Misdeed::answer(401, ""), "PullUnauthorized"),
        (Misdeed::answer(410, ""), "ServerError"),
        (Misdeed::closed(), "Unreachable"),
        (
            Misdeed::answer(429, "").with("Retry-After", "3600"),
            "RateLimited",
        ),
        (Misdeed::redirect("ftp://example.com/x"), "Refused"),
        (Misdeed::redirect("/disk.img"), "Refused"),
    ] {
        let server = HostileServer::start(move |_| answer.clone()).await.unwrap();
        let error = look(&client(), &of(&server)).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains("/disk.img"), "{error}");
    }
}

#[tokio::test]
async fn a_file_has_limits() {
    let server = HostileServer::start(|asked| {
        if asked.method == "HEAD" {
            return Misdeed::answer(200, "").with("ETag", "\"x\"");
        }
        Misdeed::endless(Bytes::from(vec![1; 1 << 20])).with("ETag", "\"x\"")
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
