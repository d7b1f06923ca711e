//! Several consoles behind a load balancer: sessions continue on every replica and after restarts,
//! and end on all of them. And a console with its own TLS, over HTTP/2.

#[path = "http/world.rs"]
#[allow(dead_code, reason = "other suites use the rest of it")]
mod world;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use console::SessionKeys;
use governance::roles::{APPROVER, VIEWER};
use http::header::{COOKIE, SET_COOKIE};
use http::{Method, Request, StatusCode, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use serving::certificates::{SelfSigned, Tls};
use testkit::wait_until;
use tokio::net::TcpStream;
use world::{Browser, ConsoleFixture, NAME, NAMESPACE, PLAN, Replica, WAIT_TIMEOUT};

const KEYS: &str = manifests::CONSOLE_KEYS;

/// A cluster where the operator has exactly the permissions of an installation with a console.
async fn start() -> anyhow::Result<ConsoleFixture> {
    let fixture = ConsoleFixture::start().await?;
    let installation = manifests::Options {
        console: true,
        ..manifests::Options::default()
    };
    let params = PostParams::default();
    for object in manifests::objects(&installation)? {
        let value = object.value;
        let client = fixture.cluster.client();
        if value["metadata"]["name"] != KEYS {
            continue;
        }
        if value["kind"] == "Role" {
            let roles: Api<Role> = Api::namespaced(client, NAMESPACE);
            roles
                .create(&params, &serde_json::from_value(value)?)
                .await?;
        } else {
            let bindings: Api<RoleBinding> = Api::namespaced(client, NAMESPACE);
            bindings
                .create(&params, &serde_json::from_value(value)?)
                .await?;
        }
    }
    Ok(fixture)
}

/// A replica whose keys are in the Secret.
async fn replica(fixture: &ConsoleFixture) -> anyhow::Result<Replica> {
    let user = format!("system:serviceaccount:{NAMESPACE}:{}", manifests::ACCOUNT);
    let client = fixture
        .cluster
        .client_as(&user, &["system:authenticated"])?;
    let keys = SessionKeys::of_secret(client, NAMESPACE, KEYS).await?;
    let mut options = fixture.options().await?;
    options.keys = keys;
    Replica::start(options, None).await
}

/// Signs in as a new user. Tokens of new service accounts may be accepted a moment later.
async fn sign_in(
    fixture: &ConsoleFixture,
    browser: &mut Browser,
    name: &str,
    role: &str,
) -> anyhow::Result<()> {
    let token = fixture.token(name, &[role]).await?;
    wait_until("the token is accepted", WAIT_TIMEOUT, async || {
        let answer = Browser::new(fixture.address)
            .post("/sign-in", &[("token", &token)])
            .await?;
        Ok((answer.status == StatusCode::SEE_OTHER).then_some(()))
    })
    .await?;
    let answer = browser.post("/sign-in", &[("token", &token)]).await?;
    anyhow::ensure!(answer.status == StatusCode::SEE_OTHER, "{answer:?}");
    let cookie = answer.header(SET_COOKIE);
    anyhow::ensure!(!cookie.contains(&token), "{cookie}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn session_continues_on_every_replica_and_after_restarts() -> anyhow::Result<()> {
    let fixture = start().await?;
    fixture.review().await?;
    // They start together, and one of them creates the Secret.
    let (one, other) = tokio::try_join!(replica(&fixture), replica(&fixture))?;
    let mut browser = Browser::balanced(&[one.address, other.address]);
    sign_in(&fixture, &mut browser, "ann", APPROVER).await?;
    for _ in 0..4 {
        let page = browser.page("/governance").await?;
        assert!(page.contains("medley-system:ann"), "{page}");
    }
    // A form of one replica is accepted by the other, and the next page has its message.
    let fields = [
        ("digest", PLAN),
        ("item", "enable-metrics"),
        ("item", "descheduler"),
        ("takeover", "descheduler:spec.mode"),
    ];
    let path = format!("/governance/{NAME}");
    let answer = browser.submit(&format!("{path}/approve"), &fields).await?;
    assert_eq!(answer.location(), path, "{}", answer.body);
    let page = browser.page(&path).await?;
    assert!(
        page.contains("role=\"status\">The plan is approved"),
        "{page}"
    );
    let page = browser.page(&path).await?;
    assert!(
        !page.contains("role=\"status\">The plan"),
        "shown once: {page}"
    );

    drop((one, other));
    let (third, fourth) = tokio::try_join!(replica(&fixture), replica(&fixture))?;
    browser.move_to(&[third.address, fourth.address]);
    for _ in 0..2 {
        assert!(browser.page("/").await?.contains("medley-system:ann"));
    }
    // A console with other keys does not know the session.
    browser.move_to(&[fixture.address]);
    assert_eq!(browser.get("/").await?.status, StatusCode::SEE_OTHER);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_ends_the_session_on_every_replica() -> anyhow::Result<()> {
    let fixture = start().await?;
    let (one, other) = (replica(&fixture).await?, replica(&fixture).await?);
    let mut browser = Browser::balanced(&[one.address]);
    sign_in(&fixture, &mut browser, "vic", VIEWER).await?;
    // A thief has a copy of the cookie, and an open event stream.
    let mut thief = Browser::balanced(&[other.address]);
    thief.cookies.clone_from(&browser.cookies);
    assert_eq!(thief.get("/").await?.status, StatusCode::OK);
    let request = thief.request(&Method::GET, "/live?page=/");
    let mut stream = thief.open(request, String::new()).await?.into_body();

    browser.submit("/sign-out", &[]).await?;
    assert_eq!(browser.get("/").await?.status, StatusCode::SEE_OTHER);
    thief.move_to(&[one.address]);
    assert_eq!(thief.get("/").await?.status, StatusCode::SEE_OTHER);
    thief.move_to(&[other.address]);
    wait_until("the other replica knows it", WAIT_TIMEOUT, async || {
        Ok((thief.status("/").await? == StatusCode::SEE_OTHER).then_some(()))
    })
    .await?;
    tokio::time::timeout(WAIT_TIMEOUT, async {
        while let Some(Ok(_)) = stream.frame().await {}
    })
    .await?;
    // A replica that starts later knows it from the beginning.
    let late = replica(&fixture).await?;
    thief.move_to(&[late.address]);
    assert_eq!(thief.get("/").await?.status, StatusCode::SEE_OTHER);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_secret_signs_all_users_out() -> anyhow::Result<()> {
    let fixture = start().await?;
    let one = replica(&fixture).await?;
    let mut browser = Browser::balanced(&[one.address]);
    sign_in(&fixture, &mut browser, "vic", VIEWER).await?;
    let secrets: Api<Secret> = Api::namespaced(fixture.cluster.client(), NAMESPACE);
    let data = secrets.get(KEYS).await?.data.context("data")?;
    assert_eq!(data.keys().collect::<Vec<_>>(), ["ended.json", "keys.json"]);
    secrets.delete(KEYS, &DeleteParams::default()).await?;
    wait_until("the session has ended", WAIT_TIMEOUT, async || {
        Ok((browser.status("/").await? == StatusCode::SEE_OTHER).then_some(()))
    })
    .await?;
    // Another one is there, and users can sign in again.
    let again = secrets.get(KEYS).await?.data.context("data")?;
    assert_ne!(again["keys.json"], data["keys.json"]);
    let token = fixture.token_of("vic").await?;
    browser.post("/sign-in", &[("token", &token)]).await?;
    assert_eq!(browser.get("/").await?.status, StatusCode::OK);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_foreign_cookies_are_no_session() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let mut browser = fixture.browser("vic", &[VIEWER]).await?;
    browser.page("/").await?;
    let known = browser.cookies.clone();
    let (name, value) = known.first().context("a cookie")?.clone();
    let tail = value.len() - 8;
    for forged in [
        String::new(),
        "1.".to_owned(),
        "1.AAAA".to_owned(),
        value.replacen("1.", "3.", 1),
        format!("{}AAAAAAAA", &value[..tail]),
        value[..tail].to_owned(),
        "2.".to_owned() + &"A".repeat(3800),
    ] {
        browser.cookies = vec![(name.clone(), forged.clone())];
        let answer = browser.get("/").await?;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{forged}");
    }
    browser.cookies = known;
    assert_eq!(browser.get("/").await?.status, StatusCode::OK);
    // Nor does a token that is too long for a browser's cookies begin one.
    let long = "x".repeat(9000);
    let answer = Browser::new(fixture.address)
        .post("/sign-in", &[("token", &long)])
        .await?;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.body);
    Ok(())
}

/// Connects as a browser does.
async fn connect(
    address: std::net::SocketAddr,
    authority: &str,
    protocols: &[&[u8]],
) -> anyhow::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("console.example")?;
    Ok(connector.connect(name, stream).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_live_over_http2_with_own_tls() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    fixture.review().await?;
    let token = fixture.token("vic", &[VIEWER]).await?;
    fixture.browser("ann", &[VIEWER]).await?;
    let own = SelfSigned::new("console-test", &["console.example".to_owned()])?;
    let mut options = fixture.options().await?;
    options.secure = true;
    let replica = Replica::start(options, Some(Tls::new(own.pair())?.of_listener())).await?;
    let stream = connect(replica.address, own.authority(), &[b"h2", b"http/1.1"]).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let io = TokioIo::new(stream);
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    let url = |host: &str, path: &str| format!("https://{host}{path}");

    let form = Request::builder()
        .method(Method::POST)
        .uri(url("console.example", "/sign-in"))
        .header("origin", "https://console.example")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(http_body_util::Either::Left(format!("token={token}")))?;
    let answer = client.send_request(form).await?;
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let cookie = answer.headers()[SET_COOKIE].to_str()?.to_owned();
    assert!(
        cookie.starts_with("__Host-medley-session-443=") && cookie.contains("; Secure"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let get = |host: &str, path: &str| {
        let request = Request::builder()
            .uri(url(host, path))
            // Browsers send each cookie in a header of its own.
            .header(COOKIE, "medley-theme=dark")
            .header(COOKIE, &cookie);
        request.body(http_body_util::Either::Right(Empty::<bytes::Bytes>::new()))
    };
    let page = client
        .send_request(get("console.example", "/governance")?)
        .await?;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(page.headers().contains_key("strict-transport-security"));
    // The name is checked although HTTP/2 has no Host header.
    let foreign = client
        .send_request(get("evil.example", "/governance")?)
        .await?;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);

    let live = get("console.example", "/live?page=/governance")?;
    let mut stream = client.send_request(live).await?.into_body();
    fixture.report(json!({ "phase": "InProgress" })).await?;
    let events = tokio::time::timeout(WAIT_TIMEOUT, stream.frame()).await?;
    let events = events.context("an event")??.into_data().unwrap();
    assert_eq!(events, "event: changed\ndata: /governance\n\n");

    // Clients without HTTP/2 are served as well.
    let stream = connect(replica.address, own.authority(), &[b"http/1.1"]).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_for_the_secret_is_named() -> anyhow::Result<()> {
    let fixture = ConsoleFixture::start().await?;
    let client = fixture
        .cluster
        .client_as("ann", &["system:authenticated"])?;
    let error = SessionKeys::of_secret(client, NAMESPACE, KEYS)
        .await
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("Secret medley-system/medley-console-keys"),
        "{error}"
    );
    let absent = SessionKeys::of_file(Path::new("/nowhere/keys")).unwrap_err();
    assert!(absent.to_string().contains("/nowhere/keys"));
    Ok(())
}
