//! The client against a misbehaving server.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test may fail as the test does"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use oci::{
    Cause, Client, Credential, Error, Freshness, Keyring, Registries, Roots, Routes, Secret,
    Settings, TimeoutStage,
};
use platform::{Digest, Reference};
use rstest::rstest;
use testkit::{Asked, FaultyServer, ScriptedResponse};

const MANIFEST: &str =
    r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
const TYPE: &str = "application/vnd.oci.image.index.v1+json";

fn good() -> ScriptedResponse {
    ScriptedResponse::answer(200, MANIFEST).with("Content-Type", TYPE)
}

fn settings() -> Settings {
    let mut settings = Settings::for_user(Roots::none());
    settings.connect_timeout = Duration::from_millis(500);
    settings.header_timeout = Duration::from_millis(500);
    settings.stall_timeout = Duration::from_millis(300);
    settings.retry.first = Duration::from_millis(2);
    settings.retry.longest = Duration::from_millis(10);
    settings.retry.chance = Arc::new(|| 0.0);
    settings
}

fn client(server: &FaultyServer) -> Client {
    Client::new(settings(), Routes::direct().with_plain(server.host()))
}

fn tag(server: &FaultyServer) -> Reference {
    format!("{}/disks/fedora:41", server.host())
        .parse()
        .unwrap()
}

async fn resolve(server: &FaultyServer, keyring: &Keyring) -> Result<Digest, Error> {
    let content = client(server)
        .resolve(&tag(server), keyring, Freshness::Usual)
        .await?;
    Ok(content.digest.clone())
}

async fn start(
    script: impl Fn(&Asked) -> ScriptedResponse + Send + Sync + 'static,
) -> FaultyServer {
    FaultyServer::start(script).await.unwrap()
}

/// Answers by the number of requests so far.
async fn start_counting(
    script: impl Fn(usize, &Asked) -> ScriptedResponse + Send + Sync + 'static,
) -> FaultyServer {
    let count = AtomicUsize::new(0);
    start(move |asked| script(count.fetch_add(1, Ordering::SeqCst), asked)).await
}

#[rstest]
#[case::not_found(
    ScriptedResponse::answer(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#),
    "NotFound",
    1
)]
#[case::denied(ScriptedResponse::answer(403, ""), "PullUnauthorized", 1)]
#[case::unauthorized(ScriptedResponse::answer(401, ""), "PullUnauthorized", 1)]
#[case::teapot(ScriptedResponse::answer(418, ""), "ServerError", 1)]
#[case::broken(ScriptedResponse::answer(500, "oh"), "ServerError", 4)]
#[case::gone(ScriptedResponse::closed(), "Unreachable", 4)]
#[case::silent(ScriptedResponse::silent(), "Timeout", 4)]
#[case::stalled(ScriptedResponse::stalled(100).with("Content-Type", TYPE), "Timeout", 4)]
#[case::cut(ScriptedResponse::cut(200, "{\"sch", 100), "Truncated", 4)]
#[case::long(ScriptedResponse::stalled(5 << 20), "TooLarge", 1)]
#[case::endless(ScriptedResponse::endless(vec![b' '; 65536]), "TooLarge", 1)]
#[case::no_json(ScriptedResponse::answer(200, "<html>"), "Invalid", 1)]
#[case::no_document(ScriptedResponse::answer(200, "{}"), "Invalid", 1)]
#[case::other_type(ScriptedResponse::answer(200, MANIFEST).with("Content-Type", "application/vnd.oci.image.manifest.v1+json"), "Invalid", 1)]
#[case::lies(good().with("Docker-Content-Digest", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"), "DigestMismatch", 1)]
#[case::unasked(ScriptedResponse::answer(304, ""), "Invalid", 1)]
#[case::nowhere(ScriptedResponse::answer(307, ""), "Invalid", 1)]
#[case::ftp(ScriptedResponse::redirect("ftp://x/"), "Refused", 1)]
#[case::metadata(
    ScriptedResponse::redirect("http://169.254.169.254/latest"),
    "Refused",
    1
)]
#[case::named(ScriptedResponse::redirect("https://u:p@example.com/"), "Refused", 1)]
#[case::circle(ScriptedResponse::redirect("/again"), "Refused", 11)]
#[tokio::test]
async fn manifests_fail_with_a_reason(
    #[case] misdeed: ScriptedResponse,
    #[case] reason: &str,
    #[case] requests: usize,
) {
    let server = start(move |_| misdeed.clone()).await;
    let error = resolve(&server, &Keyring::anonymous()).await.unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
    assert_eq!(server.asked().len(), requests);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("reading the manifest of {}", tag(&server))),
        "{text}"
    );
}

#[tokio::test]
async fn transient_failure_is_retried() {
    let server = start_counting(|count, _| match count {
        0 => ScriptedResponse::answer(503, ""),
        1 => ScriptedResponse::cut(200, "{", 50),
        2 => ScriptedResponse::closed(),
        _ => good(),
    })
    .await;
    let digest = resolve(&server, &Keyring::anonymous()).await.unwrap();
    assert_eq!(digest, Digest::sha256(MANIFEST.as_bytes()));
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn wrong_content_for_a_digest_is_refused() {
    let server = start(|_| good()).await;
    let other = Digest::sha256(b"other");
    let pinned = tag(&server).with_digest(other.clone());
    let error = client(&server)
        .resolve(&pinned, &Keyring::anonymous(), Freshness::Usual)
        .await
        .unwrap_err();
    let actual = Digest::sha256(MANIFEST.as_bytes());
    assert_eq!(
        error.cause,
        Cause::DigestMismatch {
            expected: other,
            actual
        }
    );
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let server = start_counting(|count, _| match count {
        0 => ScriptedResponse::answer(429, "").with("Retry-After", "1"),
        _ => good(),
    })
    .await;
    let started = Instant::now();
    resolve(&server, &Keyring::anonymous()).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn long_retry_after_pauses_the_registry() {
    let server = start(|_| ScriptedResponse::answer(429, "").with("Retry-After", "3600")).await;
    let client = client(&server);
    let anonymous = Keyring::anonymous();
    let error = client
        .resolve(&tag(&server), &anonymous, Freshness::Now)
        .await
        .unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_hours(1)));
    // No request is sent during the pause, not even for another repository.
    let other: Reference = format!("{}/other:1", server.host()).parse().unwrap();
    let error = client
        .resolve(&other, &anonymous, Freshness::Now)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "RateLimited");
    assert!(error.retry_after().unwrap() > Duration::from_mins(59));
    assert_eq!(server.asked().len(), 1);
    // Another credential is not affected.
    let me = Keyring::for_host(&server.host(), Credential::password("me", "hunter2"));
    client
        .resolve(&other, &me, Freshness::Now)
        .await
        .unwrap_err();
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let host = format!("127.0.0.1:{}", testkit::free_port().unwrap());
    let client = Client::new(settings(), Routes::direct().with_plain(host.clone()));
    let reference: Reference = format!("{host}/x:1").parse().unwrap();
    let error = client
        .resolve(&reference, &Keyring::anonymous(), Freshness::Usual)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    assert!(
        error.is_transient() && error.to_string().contains("refused"),
        "{error}"
    );
}

#[tokio::test]
async fn stalled_handshake_times_out() {
    // The server accepts the connection and never sends a byte.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let mut settings = settings();
    settings.retry.attempts = 1;
    settings.header_timeout = Duration::from_secs(20);
    let other = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
    let tls = oci::Tls::authorities(other.cert.pem().as_bytes()).unwrap();
    settings.tls.insert(host.clone(), tls);
    let client = Client::new(settings, Routes::direct());
    let reference: Reference = format!("{host}/x:1").parse().unwrap();
    let error = client
        .resolve(&reference, &Keyring::anonymous(), Freshness::Usual)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.cause,
            Cause::Timeout {
                step: TimeoutStage::Connect,
                ..
            }
        ),
        "{error}"
    );
}

/// A registry with tokens: only requests with token `right` succeed.
fn with_tokens(asked: &Asked, realm: &str) -> ScriptedResponse {
    if asked.path.starts_with("/token") {
        return ScriptedResponse::answer(200, r#"{"token":"right","expires_in":300}"#);
    }
    if asked.header("authorization") == Some("Bearer right") {
        let digest = Digest::sha256(MANIFEST.as_bytes()).to_string();
        return good().with("Docker-Content-Digest", &digest);
    }
    let challenge =
        format!("Bearer realm=\"{realm}\",service=\"here\",scope=\"repository:disks/fedora:pull\"");
    ScriptedResponse::answer(401, "").with("WWW-Authenticate", &challenge)
}

/// The address under which the client reached the server.
fn own(asked: &Asked, path: &str) -> String {
    format!("http://{}{path}", asked.header("host").unwrap_or_default())
}

#[tokio::test]
async fn tokens_are_fetched_once_for_each_credential_and_repository() {
    let server = start(|asked| with_tokens(asked, &own(asked, "/token"))).await;
    let client = client(&server);
    let keyring =
        |name: &str| Keyring::for_host(&server.host(), Credential::password(name, "hunter2"));
    let (me, you) = (keyring("me"), keyring("you"));
    client
        .resolve(&tag(&server), &me, Freshness::Now)
        .await
        .unwrap();
    let paths = |server: &FaultyServer| -> Vec<String> {
        server
            .asked()
            .into_iter()
            .map(|asked| format!("{} {}", asked.method, asked.path))
            .collect()
    };
    assert_eq!(
        paths(&server),
        [
            "GET /v2/disks/fedora/manifests/41",
            "GET /token?service=here&scope=repository%3Adisks%2Ffedora%3Apull",
            "GET /v2/disks/fedora/manifests/41",
        ]
    );
    let asked = server.asked();
    assert_eq!(asked[0].header("authorization"), None);
    assert_eq!(
        asked[1].header("authorization"),
        Some("Basic bWU6aHVudGVyMg==")
    );
    // The token is cached, and a request for another repository goes straight to the token server.
    client
        .resolve(&tag(&server), &me, Freshness::Now)
        .await
        .unwrap();
    assert_eq!(server.asked().len(), 4);
    let other: Reference = format!("{}/disks/other:1", server.host()).parse().unwrap();
    client.resolve(&other, &me, Freshness::Now).await.unwrap();
    assert_eq!(
        paths(&server)[4..],
        [
            "GET /token?service=here&scope=repository%3Adisks%2Fother%3Apull",
            "GET /v2/disks/other/manifests/1",
        ]
    );
    // Another credential has a token of its own.
    client
        .resolve(&tag(&server), &you, Freshness::Now)
        .await
        .unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 8);
    assert_eq!(
        asked[6].header("authorization"),
        Some("Basic eW91Omh1bnRlcjI=")
    );
}

#[tokio::test]
async fn concurrent_token_requests_are_shared() {
    let server = start(|asked| with_tokens(asked, &own(asked, "/token"))).await;
    let client = client(&server);
    let anonymous = Keyring::anonymous();
    let references: Vec<Reference> = (0..20)
        .map(|n| {
            format!("{}/disks/fedora:{n}", server.host())
                .parse()
                .unwrap()
        })
        .collect();
    let all = references
        .iter()
        .map(|reference| client.resolve(reference, &anonymous, Freshness::Now));
    for result in futures::future::join_all(all).await {
        result.unwrap();
    }
    let tokens = server
        .asked()
        .iter()
        .filter(|asked| asked.path.starts_with("/token"))
        .count();
    assert_eq!(tokens, 1);
}

#[tokio::test]
async fn rejected_token_is_not_refetched() {
    let server = start(|asked| {
        if asked.path.starts_with("/token") {
            ScriptedResponse::answer(200, r#"{"access_token":"wrong"}"#)
        } else {
            with_tokens(asked, &own(asked, "/token"))
        }
    })
    .await;
    let error = resolve(&server, &Keyring::anonymous()).await.unwrap_err();
    assert_eq!(error.reason(), "PullUnauthorized");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn identity_tokens_are_exchanged_by_form() {
    let keyring = |server: &FaultyServer| {
        let token = Secret::new("hunter2");
        let username = "me".to_owned();
        Keyring::for_host(&server.host(), Credential::Identity { username, token })
    };
    let server = start(|asked| with_tokens(asked, &own(asked, "/token"))).await;
    resolve(&server, &keyring(&server)).await.unwrap();
    let form = server.asked().swap_remove(1);
    assert_eq!(form.method, "POST");
    assert!(
        form.body.contains("grant_type=refresh_token")
            && form.body.contains("refresh_token=hunter2")
    );
    assert!(
        form.body
            .contains("scope=repository%3Adisks%2Ffedora%3Apull"),
        "{}",
        form.body
    );
    // A server without the OAuth form is asked by query.
    let server = start(|asked| match asked.method.as_str() {
        "POST" => ScriptedResponse::answer(404, ""),
        _ => with_tokens(asked, &own(asked, "/token")),
    })
    .await;
    resolve(&server, &keyring(&server)).await.unwrap();
}

#[tokio::test]
async fn credentials_are_not_sent_to_other_hosts() {
    let thief = start(|_| ScriptedResponse::answer(200, r#"{"token":"right"}"#)).await;
    let address = format!("http://{}/token", thief.host());
    // Another token server without TLS; internal addresses; not a URL.
    for realm in [
        address.as_str(),
        "http://169.254.169.254/",
        "https://10.0.0.1/",
        "gopher://x",
        "token",
    ] {
        let realm = realm.to_owned();
        let server = start(move |asked| with_tokens(asked, &realm)).await;
        let me = Keyring::for_host(&server.host(), Credential::password("me", "hunter2"));
        let error = resolve(&server, &me).await.unwrap_err();
        assert_eq!(error.reason(), "Refused", "{error}");
    }
    assert_eq!(thief.asked().len(), 0);
    // A redirect, of a token server or of the registry, drops the credentials.
    let to = format!("http://{}/blob", thief.host());
    let server = start(move |asked| {
        if asked.header("authorization").is_some() {
            ScriptedResponse::redirect(&to)
        } else {
            ScriptedResponse::answer(401, "").with("WWW-Authenticate", "Basic realm=x")
        }
    })
    .await;
    let me = Keyring::for_host(&server.host(), Credential::password("me", "hunter2"));
    resolve(&server, &me).await.unwrap_err();
    let stolen = thief.asked();
    assert_eq!(stolen.len(), 1);
    assert_eq!(stolen[0].header("authorization"), None);
}

#[tokio::test]
async fn token_server_cannot_redirect_to_internal_addresses() {
    let thief = start(|_| ScriptedResponse::answer(200, r#"{"token":"right"}"#)).await;
    let to = format!("http://{}/token", thief.host());
    let server = start(move |asked| {
        if asked.path.starts_with("/token") {
            ScriptedResponse::redirect(&to)
        } else {
            with_tokens(asked, &own(asked, "/token"))
        }
    })
    .await;
    let me = Keyring::for_host(&server.host(), Credential::password("me", "hunter2"));
    assert_eq!(resolve(&server, &me).await.unwrap_err().reason(), "Refused");
    assert_eq!(thief.asked().len(), 0);
}

#[tokio::test]
async fn secrets_that_a_server_repeats_are_hidden() {
    let server = start(|asked| match asked.header("authorization") {
        None => ScriptedResponse::answer(401, "").with("WWW-Authenticate", "Basic realm=x"),
        Some(shown) => {
            let body =
                format!(r#"{{"errors":[{{"code":"DENIED","message":"{shown} is hunter2"}}]}}"#);
            ScriptedResponse::answer(403, body)
        }
    })
    .await;
    let me = Keyring::for_host(&server.host(), Credential::password("me", "hunter2"));
    let error = resolve(&server, &me).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(
        !text.contains("hunter2") && !text.contains("bWU6aHVudGVyMg"),
        "{text}"
    );
    assert!(
        error
            .to_string()
            .contains(r#"as "me": DENIED: Basic *** is ***"#),
        "{error}"
    );
}

fn noise(length: usize) -> Bytes {
    (0..length)
        .map(|at| u8::try_from(at * 31 % 251).unwrap_or_default())
        .collect::<Vec<u8>>()
        .into()
}

async fn drain(
    client: &Client,
    reference: &Reference,
    blob: &Bytes,
    offset: u64,
) -> Result<Vec<u8>, Error> {
    let digest = Digest::sha256(blob);
    let size = blob.len() as u64;
    let mut stream = client.blob(reference, &digest, size, &Keyring::anonymous(), offset)?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend(piece?);
    }
    Ok(bytes)
}

#[rstest]
#[case::with_ranges(true)]
#[case::without_ranges(false)]
#[tokio::test]
async fn blobs_that_break_off_are_resumed(#[case] ranges: bool) {
    let blob = noise(1_000_000);
    let whole = blob.clone();
    let server = start_counting(move |count, asked| {
        let at = if ranges { asked.offset() } else { 0 };
        let rest = whole.slice(at..);
        let code = if at > 0 { 206 } else { 200 };
        let range = format!("bytes {at}-{}/{}", whole.len() - 1, whole.len());
        let answer = match count {
            // Longer each time, so that it makes progress without ranges, too.
            0..4 => {
                ScriptedResponse::cut(code, rest.slice(..rest.len() / (8 - 2 * count)), rest.len())
            }
            _ => ScriptedResponse::answer(code, rest),
        };
        if at > 0 {
            answer.with("Content-Range", &range)
        } else {
            answer
        }
    })
    .await;
    let client = client(&server);
    let bytes = drain(&client, &tag(&server), &blob, 0).await.unwrap();
    assert!(bytes == blob);
    assert_eq!(server.asked().len(), 5);
    let bytes = drain(&client, &tag(&server), &blob, 999_000).await.unwrap();
    assert!(bytes == blob[999_000..]);
}

#[rstest]
#[case::wrong(|_: &Asked, blob: &Bytes| ScriptedResponse::answer(200, vec![0; blob.len()]), "DigestMismatch")]
#[case::longer(|_: &Asked, blob: &Bytes| ScriptedResponse::answer(200, vec![0; blob.len() + 1]), "TooLarge")]
#[case::endless(|_: &Asked, _: &Bytes| ScriptedResponse::endless(vec![0; 4096]), "TooLarge")]
#[case::always_cut(|_: &Asked, blob: &Bytes| ScriptedResponse::cut(200, blob.slice(..10), blob.len()), "Truncated")]
#[case::stalled(|_: &Asked, blob: &Bytes| ScriptedResponse::stalled(blob.len()), "Timeout")]
#[case::missing(|_: &Asked, _: &Bytes| ScriptedResponse::answer(404, ""), "NotFound")]
#[case::no_range(|asked: &Asked, blob: &Bytes| match asked.offset() {
    0 => ScriptedResponse::cut(200, blob.slice(..10), blob.len()),
    _ => ScriptedResponse::answer(206, blob.clone()),
}, "Invalid")]
#[case::other_range(|asked: &Asked, blob: &Bytes| match asked.offset() {
    0 => ScriptedResponse::cut(200, blob.slice(..10), blob.len()),
    _ => ScriptedResponse::answer(206, blob.clone()).with("Content-Range", "bytes 5-99/100000"),
}, "Invalid")]
#[tokio::test]
async fn blobs_fail_with_a_reason(
    #[case] script: fn(&Asked, &Bytes) -> ScriptedResponse,
    #[case] reason: &str,
) {
    let blob = noise(100_000);
    let whole = blob.clone();
    let server = start(move |asked| script(asked, &whole)).await;
    let error = drain(&client(&server), &tag(&server), &blob, 0)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
}

#[tokio::test]
async fn slow_body_is_read_while_it_progresses() {
    let blob = noise(10);
    let whole = blob.clone();
    let server =
        start(move |_| ScriptedResponse::slow(whole.clone(), 1, Duration::from_millis(100))).await;
    // A second in total, which exceeds every single timeout.
    assert!(
        drain(&client(&server), &tag(&server), &blob, 0)
            .await
            .unwrap()
            == blob
    );
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn empty_blobs_are_blobs() {
    let server = start(|_| ScriptedResponse::answer(200, "")).await;
    let bytes = drain(&client(&server), &tag(&server), &Bytes::new(), 0)
        .await
        .unwrap();
    assert!(bytes.is_empty());
}

/// A client that uses the mirror of a registry before the registry.
fn mirrored(origin: &FaultyServer, mirror: &FaultyServer) -> Client {
    let conf = format!(
        "[[registry]]\nlocation='{}'\n[[registry.mirror]]\nlocation='{}'\n",
        origin.host(),
        mirror.host()
    );
    let registries = Registries::read([("registries.conf", conf.as_str())]).unwrap();
    let routes = Routes::direct()
        .with_registries(registries)
        .with_plain(origin.host())
        .with_plain(mirror.host());
    Client::new(settings(), routes)
}

#[tokio::test]
async fn blob_resumes_at_the_registry_when_a_mirror_fails() {
    let blob = noise(300_000);
    let (first, second) = (blob.clone(), blob.clone());
    let mirror = start_counting(move |count, _| match count {
        0 => ScriptedResponse::cut(200, first.slice(..100_000), first.len()),
        _ => ScriptedResponse::answer(404, ""),
    })
    .await;
    let origin = start(move |asked| {
        let at = asked.offset();
        let range = format!("bytes {at}-{}/{}", second.len() - 1, second.len());
        ScriptedResponse::answer(206, second.slice(at..)).with("Content-Range", &range)
    })
    .await;
    let client = mirrored(&origin, &mirror);
    let bytes = drain(&client, &tag(&origin), &blob, 0).await.unwrap();
    assert!(bytes == blob);
    assert_eq!(origin.asked().len(), 1);
    assert_eq!(origin.asked()[0].offset(), 100_000);
}

#[tokio::test]
async fn mirror_with_wrong_content_is_not_retried() {
    let blob = noise(1000);
    let whole = blob.clone();
    let mirror = start(|_| ScriptedResponse::answer(200, vec![9; 1000])).await;
    let origin = start(move |_| ScriptedResponse::answer(200, whole.clone())).await;
    let client = mirrored(&origin, &mirror);
    let error = drain(&client, &tag(&origin), &blob, 0).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.place),
        ("DigestMismatch", mirror.host())
    );
    assert!(drain(&client, &tag(&origin), &blob, 0).await.unwrap() == blob);
    assert_eq!(mirror.asked().len(), 1);
}

#[tokio::test]
async fn missing_digest_header_causes_conditional_request() {
    let server = start(
        |asked| match (asked.method.as_str(), asked.header("if-none-match")) {
            ("HEAD", _) => ScriptedResponse::answer(405, ""),
            (_, Some("\"v1\"")) => ScriptedResponse::answer(304, ""),
            _ => good().with("ETag", "\"v1\""),
        },
    )
    .await;
    let client = client(&server);
    let anonymous = Keyring::anonymous();
    let first = client
        .resolve(&tag(&server), &anonymous, Freshness::Now)
        .await
        .unwrap();
    let second = client
        .resolve(&tag(&server), &anonymous, Freshness::Now)
        .await
        .unwrap();
    assert_eq!(first, second);
    let methods: Vec<String> = server
        .asked()
        .into_iter()
        .map(|asked| asked.method)
        .collect();
    assert_eq!(methods, ["GET", "HEAD", "GET"]);
    assert_eq!(server.asked()[2].header("if-none-match"), Some("\"v1\""));
}

#[tokio::test]
async fn oversized_documents_and_blobs_are_not_requested() {
    let server = start(|_| good()).await;
    let client = client(&server);
    let (digest, anonymous) = (Digest::sha256(b"x"), Keyring::anonymous());
    let error = client
        .document(&tag(&server), &digest, 1 << 30, &anonymous)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TooLarge");
    let error = client
        .blob(&tag(&server), &digest, u64::MAX, &anonymous, 0)
        .unwrap_err();
    assert_eq!(error.reason(), "TooLarge");
    assert_eq!(server.asked().len(), 0);
}
