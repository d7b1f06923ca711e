//! What probes and Prometheus are told.

use chassis::Manager;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use testkit::TestCluster;

use super::{Health, Phase};

async fn ask(health: &Health, path: &str) -> anyhow::Result<(StatusCode, String, String)> {
    let (parts, body) = health.answer(&Method::GET, path).into_parts();
    let kind = parts.headers["content-type"].to_str()?.to_owned();
    let text = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    Ok((parts.status, kind, text))
}

#[tokio::test]
async fn ready_means_that_it_works_or_may_take_over() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let manager = Manager::new(cluster.client());
    let health = Health::new(manager.clone());
    let plain = "text/plain; charset=utf-8".to_owned();
    let ok = (StatusCode::OK, plain.clone(), "ok".to_owned());
    assert_eq!(ask(&health, "/readyz").await?, ok, "it stands by");

    health.enter(Phase::Starting);
    let (code, _, text) = ask(&health, "/readyz").await?;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert_eq!(ask(&health, "/healthz").await?, ok, "that is no illness");

    // Nothing runs between these two lines: there is one thread, and it does not wait.
    let cache = manager.cache::<ConfigMap>();
    health.enter(Phase::Working);
    assert_eq!(
        health.missing().as_deref(),
        Some("not listed yet: ConfigMap")
    );
    cache.synced().await;
    assert_eq!(ask(&health, "/readyz").await?, ok);
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn other_questions_have_no_answer() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let health = Health::new(Manager::new(cluster.client()));
    assert_eq!(ask(&health, "/").await?.0, StatusCode::NOT_FOUND);
    let refusal = health.answer(&Method::POST, "/metrics");
    assert_eq!(refusal.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refusal.headers()["allow"], "GET, HEAD");
    let (code, kind, text) = ask(&health, "/metrics").await?;
    assert_eq!(code, StatusCode::OK);
    assert!(kind.starts_with("application/openmetrics-text;"), "{kind}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    Ok(())
}
