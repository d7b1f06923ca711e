//! Health probes, metrics and log level.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::client::Body;
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use runtime::access::EndpointAuthorizer;
use runtime::{Manager, WriteFence};
use serde_json::json;
use serving::PeerAddress;
use testkit::TestCluster;
use tokio::time::Instant;

use super::{Endpoints, Health, LogLevel, Phase};

async fn send(health: &Health, method: Method, path: &str, body: &'static str) -> Response<Bytes> {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes())));
    whole(health.answer(Endpoints::All, request.unwrap()).await).await
}

async fn whole(answer: Response<Full<Bytes>>) -> Response<Bytes> {
    let (parts, body) = answer.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

async fn ask(health: &Health, path: &str) -> (StatusCode, String) {
    let answer = send(health, Method::GET, path, "").await;
    let text = String::from_utf8(answer.body().to_vec()).unwrap();
    (answer.status(), text)
}

#[tokio::test]
async fn leader_and_synced_standby_are_ready() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let fence = WriteFence::follower();
    let manager = Manager::with_fence(cluster.client(), fence.clone());
    let health = Health::new(manager.clone());
    let ok = (StatusCode::OK, "ok".to_owned());
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert_eq!(ask(&health, "/livez").await, ok, "that is no illness");
    health.enter(Phase::StandingBy);
    assert_eq!(ask(&health, "/readyz").await, ok, "it stands by");

    // The cache cannot sync between these two lines: the test runs on one thread, and does not await.
    let cache = manager.cache::<ConfigMap>();
    let (code, text) = ask(&health, "/readyz?verbose").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    let expected =
        "[+]controllers ok\n[-]caches failed: not listed yet: ConfigMap\nreadyz check failed\n";
    assert_eq!(text, expected);
    cache.synced().await;
    assert_eq!(ask(&health, "/readyz").await, ok);

    fence.renew_until(Instant::now() + std::time::Duration::from_hours(1));
    health.enter(Phase::Working);
    let (code, text) = ask(&health, "/livez?verbose=1").await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        text,
        "[+]ping ok\n[+]election ok: working\nlivez check passed\n"
    );
    fence.resign();
    let lost = (
        StatusCode::SERVICE_UNAVAILABLE,
        "the lease is lost\n".to_owned(),
    );
    assert_eq!(ask(&health, "/livez").await, lost);
    assert_eq!(ask(&health, "/healthz").await, lost);
    manager.stop().await;
    Ok(())
}

/// What does not use the kind works, so the process is ready; the check names it.
#[tokio::test]
async fn rejected_kind_is_listed_and_ready() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let inner = cluster.client();
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if !request.uri().path().ends_with("/secrets") {
                return inner.send(request).await;
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "secrets is forbidden",
            });
            let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::FORBIDDEN;
            Ok(answer)
        }
    });
    let manager = Manager::new(Client::new(service, "default"));
    let health = Health::new(manager.clone());
    health.enter(Phase::StandingBy);
    let foreign = manager.optional_kinds();
    foreign.follow(&GroupVersionKind::gvk("", "v1", "Secret"));
    foreign.answered().await;
    let ok = (StatusCode::OK, "ok".to_owned());
    assert_eq!(ask(&health, "/readyz").await, ok);
    let (_, text) = ask(&health, "/readyz?verbose").await;
    let expected = "[+]kinds ok: cannot be read: Secret: secrets is forbidden\n";
    assert!(text.contains(expected), "{text}");
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn unknown_paths_and_methods_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let health = Health::new(Manager::new(cluster.client()));
    for path in ["/", "/loglevel", "/metrics/"] {
        assert_eq!(ask(&health, path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let refusal = send(&health, Method::POST, "/metrics", "").await;
    assert_eq!(refusal.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refusal.headers()["allow"], "GET, HEAD");
    let answer = send(&health, Method::GET, "/metrics", "").await;
    assert_eq!(answer.status(), StatusCode::OK);
    let kind = answer.headers()["content-type"].to_str()?;
    assert!(kind.starts_with("application/openmetrics-text;"), "{kind}");
    assert!(answer.body().ends_with(b"# EOF\n"));
    Ok(())
}

/// A request with a token, from a remote address.
async fn with_token(health: &Health, method: Method, path: &str, token: &str) -> StatusCode {
    let request = Request::builder().method(method).uri(path);
    let mut request = request
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::from_static(b"info")))
        .unwrap();
    let peer: SocketAddr = "192.0.2.1:1".parse().unwrap();
    request.extensions_mut().insert(PeerAddress(peer));
    whole(health.answer(Endpoints::All, request).await)
        .await
        .status()
}

#[tokio::test]
async fn probe_socket_accepts_no_tokens() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let health = Health::new(Manager::new(cluster.client()))
        .guarded(EndpointAuthorizer::new(cluster.client()))
        .with_log_level(LogLevel {
            get: || "warn".to_owned(),
            set: |_| Ok(()),
        });
    let ask = async |endpoints, method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("authorization", "Bearer anything")
            .body(Full::new(Bytes::new()))
            .unwrap();
        health.answer(endpoints, request).await.status()
    };
    for (endpoints, method, path, code) in [
        (Endpoints::Health, Method::GET, "/livez", StatusCode::OK),
        (
            Endpoints::Health,
            Method::GET,
            "/metrics",
            StatusCode::NOT_FOUND,
        ),
        (
            Endpoints::Health,
            Method::GET,
            "/loglevel",
            StatusCode::FORBIDDEN,
        ),
        (
            Endpoints::Health,
            Method::PUT,
            "/loglevel",
            StatusCode::FORBIDDEN,
        ),
        (
            Endpoints::Metrics,
            Method::GET,
            "/livez",
            StatusCode::NOT_FOUND,
        ),
        (
            Endpoints::Metrics,
            Method::GET,
            "/readyz",
            StatusCode::NOT_FOUND,
        ),
        (
            Endpoints::Metrics,
            Method::GET,
            "/metrics",
            StatusCode::UNAUTHORIZED,
        ),
        (
            Endpoints::Metrics,
            Method::PUT,
            "/loglevel",
            StatusCode::UNAUTHORIZED,
        ),
    ] {
        assert_eq!(
            ask(endpoints, method.clone(), path).await,
            code,
            "{endpoints:?} {method} {path}"
        );
    }
    Ok(())
}

static CHANGED: AtomicBool = AtomicBool::new(false);

fn log_level() -> LogLevel {
    LogLevel {
        get: || "warn".to_owned(),
        set: |level| match level {
            "info" => {
                CHANGED.store(true, Ordering::SeqCst);
                Ok(())
            }
            other => Err(format!("{other:?} is no level")),
        },
    }
}

#[tokio::test]
async fn metrics_require_authorization() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let namespace = cluster.namespace("metrics").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let mut tokens = Vec::new();
    for name in ["prometheus", "stranger"] {
        let account = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        accounts.create(&PostParams::default(), &account).await?;
        let request = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await?;
        tokens.push(answer.status.unwrap_or_default().token.unwrap_or_default());
    }
    let role = governance::roles::metrics_reader();
    let name = role.metadata.name.clone().unwrap_or_default();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&PostParams::default(), &role).await?;
    let binding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": "prometheus", "namespace": namespace }],
    }))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &binding).await?;

    let manager = Manager::new(client.clone());
    let health = Health::new(manager.clone())
        .guarded(EndpointAuthorizer::new(client))
        .with_log_level(log_level());
    let refused = send(&health, Method::GET, "/metrics", "").await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    let [reader, stranger] = [&tokens[0], &tokens[1]];
    let get = async |path, token: &str| with_token(&health, Method::GET, path, token).await;
    assert_eq!(get("/metrics", "x").await, StatusCode::UNAUTHORIZED);
    assert_eq!(get("/metrics", stranger).await, StatusCode::FORBIDDEN);
    assert_eq!(get("/metrics", reader).await, StatusCode::OK);
    assert_eq!(get("/loglevel", reader).await, StatusCode::FORBIDDEN);
    // Probes need no token.
    assert_eq!(ask(&health, "/livez").await.0, StatusCode::OK);
    let put = with_token(&health, Method::PUT, "/loglevel", reader).await;
    assert_eq!(put, StatusCode::FORBIDDEN);
    assert!(!CHANGED.load(Ordering::SeqCst));

    // Loopback callers need no token.
    let from_here = async |level: &'static str| {
        let request =
            Request::put("/loglevel").body(Full::new(Bytes::from_static(level.as_bytes())));
        let mut request = request.unwrap();
        let peer: SocketAddr = "[::ffff:127.0.0.1]:1".parse().unwrap();
        request.extensions_mut().insert(PeerAddress(peer));
        whole(health.answer(Endpoints::All, request).await)
            .await
            .status()
    };
    assert_eq!(from_here("loud").await, StatusCode::BAD_REQUEST);
    assert!(!CHANGED.load(Ordering::SeqCst));
    assert_eq!(from_here("info\n").await, StatusCode::OK);
    assert!(CHANGED.load(Ordering::SeqCst));
    manager.stop().await;
    Ok(())
}
