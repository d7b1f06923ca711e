//! What probes and Prometheus are told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use runtime::access::Keeper;
use runtime::{Manager, Turn};
use serde_json::json;
use serving::PeerAddress;
use testkit::TestCluster;
use tokio::time::Instant;

use super::{Door, Health, LogLevel, Phase};

async fn send(health: &Health, method: Method, path: &str, body: &'static str) -> Response<Bytes> {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes())));
    whole(health.answer(Door::Everything, request.unwrap()).await).await
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
async fn ready_means_that_it_works_or_may_take_over() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let turn = Turn::waiting();
    let manager = Manager::in_turn(cluster.client(), turn.clone());
    let health = Health::new(manager.clone());
    let ok = (StatusCode::OK, "ok".to_owned());
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert_eq!(ask(&health, "/livez").await, ok, "that is no illness");
    health.enter(Phase::StandingBy);
    assert_eq!(ask(&health, "/readyz").await, ok, "it stands by");

    // Nothing runs between these two lines: there is one thread, and it does not wait.
    let cache = manager.cache::<ConfigMap>();
    let (code, text) = ask(&health, "/readyz?verbose").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    let expected =
        "[+]controllers ok\n[-]caches failed: not listed yet: ConfigMap\nreadyz check failed\n";
    assert_eq!(text, expected);
    cache.synced().await;
    assert_eq!(ask(&health, "/readyz").await, ok);

    turn.lasts(Instant::now() + std::time::Duration::from_hours(1));
    health.enter(Phase::Working);
    let (code, text) = ask(&health, "/livez?verbose=1").await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        text,
        "[+]ping ok\n[+]election ok: working\nlivez check passed\n"
    );
    turn.end();
    let lost = (
        StatusCode::SERVICE_UNAVAILABLE,
        "the lease is lost\n".to_owned(),
    );
    assert_eq!(ask(&health, "/livez").await, lost);
    assert_eq!(ask(&health, "/healthz").await, lost);
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn other_questions_have_no_answer() -> anyhow::Result<()> {
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

/// A request with a token, from somewhere else.
async fn with_token(health: &Health, method: Method, path: &str, token: &str) -> StatusCode {
    let request = Request::builder().method(method).uri(path);
    let mut request = request
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::from_static(b"info")))
        .unwrap();
    let peer: SocketAddr = "192.0.2.1:1".parse().unwrap();
    request.extensions_mut().insert(PeerAddress(peer));
    whole(health.answer(Door::Everything, request).await)
        .await
        .status()
}

#[tokio::test]
async fn tokens_are_taken_by_tls_alone_where_metrics_have_a_socket_of_their_own()
-> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let health = Health::new(Manager::new(cluster.client()))
        .guarded(Keeper::new(cluster.client()))
        .with_log_level(LogLevel {
            get: || "warn".to_owned(),
            set: |_| Ok(()),
        });
    let ask = async |door, method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("authorization", "Bearer anything")
            .body(Full::new(Bytes::new()))
            .unwrap();
        health.answer(door, request).await.status()
    };
    for (door, method, path, code) in [
        (Door::Health, Method::GET, "/livez", StatusCode::OK),
        (Door::Health, Method::GET, "/metrics", StatusCode::NOT_FOUND),
        (
            Door::Health,
            Method::GET,
            "/loglevel",
            StatusCode::FORBIDDEN,
        ),
        (
            Door::Health,
            Method::PUT,
            "/loglevel",
            StatusCode::FORBIDDEN,
        ),
        (Door::Metrics, Method::GET, "/livez", StatusCode::NOT_FOUND),
        (Door::Metrics, Method::GET, "/readyz", StatusCode::NOT_FOUND),
        (
            Door::Metrics,
            Method::GET,
            "/metrics",
            StatusCode::UNAUTHORIZED,
        ),
        (
            Door::Metrics,
            Method::PUT,
            "/loglevel",
            StatusCode::UNAUTHORIZED,
        ),
    ] {
        assert_eq!(
            ask(door, method.clone(), path).await,
            code,
            "{door:?} {method} {path}"
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
async fn metrics_are_for_whom_the_cluster_allows_it() -> anyhow::Result<()> {
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
        .guarded(Keeper::new(client))
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
    // Probes come without a token.
    assert_eq!(ask(&health, "/livez").await.0, StatusCode::OK);
    let put = with_token(&health, Method::PUT, "/loglevel", reader).await;
    assert_eq!(put, StatusCode::FORBIDDEN);
    assert!(!CHANGED.load(Ordering::SeqCst));

    // Who is on the machine need not be asked for a token.
    let from_here = async |level: &'static str| {
        let request =
            Request::put("/loglevel").body(Full::new(Bytes::from_static(level.as_bytes())));
        let mut request = request.unwrap();
        let peer: SocketAddr = "[::ffff:127.0.0.1]:1".parse().unwrap();
        request.extensions_mut().insert(PeerAddress(peer));
        whole(health.answer(Door::Everything, request).await)
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
