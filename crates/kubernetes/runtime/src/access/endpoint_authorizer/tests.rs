//! Verdicts, and how often the API server is asked for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::{ALLOWED_TTL, AccessVerdict, DENIED_TTL, EndpointAuthorizer, MAX_CACHED};

/// An API server where `reader` may get metrics, `stranger` has no permissions, and no other token is authenticated.
fn cluster() -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await?;
            let asked: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let spec = &asked["spec"];
            let status = if path.ends_with("/tokenreviews") {
                let name = spec["token"].as_str().unwrap();
                let known = ["reader", "stranger"].contains(&name);
                json!({ "authenticated": known, "user": { "username": name, "groups": ["g"] } })
            } else {
                assert_eq!(spec["groups"], json!(["g"]));
                let wanted = json!({ "path": "/metrics", "verb": "get" });
                json!({ "allowed": spec["user"] == "reader" && spec["nonResourceAttributes"] == wanted })
            };
            let mut answer = asked.clone();
            answer["status"] = status;
            Ok::<_, kube::Error>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    (Client::new(service, "default"), asked)
}

#[tokio::test]
async fn verdicts_come_from_reviews_and_are_cached() {
    let (client, asked) = cluster();
    let keeper = EndpointAuthorizer::new(client);
    let ask = async |token, verb, path| keeper.ask(token, verb, path).await.unwrap();
    let asked = || asked.swap(0, Ordering::SeqCst);

    assert_eq!(ask(None, "get", "/metrics").await, AccessVerdict::Unknown);
    assert_eq!(
        ask(Some(""), "get", "/metrics").await,
        AccessVerdict::Unknown
    );
    let long = "x".repeat(20 << 10);
    assert_eq!(
        ask(Some(&long), "get", "/metrics").await,
        AccessVerdict::Unknown
    );
    assert_eq!(asked(), 0, "rejected without a review");

    let reader = Some("reader");
    assert_eq!(ask(reader, "get", "/metrics").await, AccessVerdict::Allowed);
    assert_eq!(asked(), 2);
    assert_eq!(ask(reader, "get", "/metrics").await, AccessVerdict::Allowed);
    assert_eq!(asked(), 0);
    // A verdict holds for one verb and one path.
    assert_eq!(
        ask(reader, "put", "/metrics").await,
        AccessVerdict::Forbidden
    );
    assert_eq!(
        ask(reader, "get", "/loglevel").await,
        AccessVerdict::Forbidden
    );
    assert_eq!(asked(), 4);
    assert_eq!(
        ask(Some("stranger"), "get", "/metrics").await,
        AccessVerdict::Forbidden
    );
    assert_eq!(
        ask(Some("nobody"), "get", "/metrics").await,
        AccessVerdict::Unknown
    );
    assert_eq!(asked(), 3);

    // Denied verdicts expire sooner than allowed ones.
    pass(&keeper, DENIED_TTL);
    ask(reader, "get", "/metrics").await;
    assert_eq!(asked(), 0);
    ask(Some("nobody"), "get", "/metrics").await;
    assert_eq!(asked(), 1);
    pass(&keeper, ALLOWED_TTL);
    ask(reader, "get", "/metrics").await;
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn random_tokens_do_not_evict_allowed_verdicts() {
    let (client, asked) = cluster();
    let keeper = EndpointAuthorizer::new(client);
    keeper.ask(Some("reader"), "get", "/metrics").await.unwrap();
    for number in 0..MAX_CACHED * 2 {
        let token = number.to_string();
        let verdict = keeper.ask(Some(&token), "get", "/metrics").await.unwrap();
        assert_eq!(verdict, AccessVerdict::Unknown);
        assert!(keeper.verdicts.lock().len() <= MAX_CACHED);
    }
    asked.store(0, Ordering::SeqCst);
    keeper.ask(Some("reader"), "get", "/metrics").await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// Ages the cached verdicts.
fn pass(keeper: &EndpointAuthorizer, time: Duration) {
    for (_, until) in keeper.verdicts.lock().values_mut() {
        *until = until.checked_sub(time).unwrap();
    }
}
