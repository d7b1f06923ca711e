//! Who may, and how often the cluster is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::{KEPT, Keeper, NO, Verdict, YES};

/// A cluster where `reader` may get metrics, `stranger` may nothing, and nobody else is known.
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
async fn the_cluster_says_who_may_and_is_not_asked_twice() {
    let (client, asked) = cluster();
    let keeper = Keeper::new(client);
    let ask = async |token, verb, path| keeper.ask(token, verb, path).await.unwrap();
    let asked = || asked.swap(0, Ordering::SeqCst);

    assert_eq!(ask(None, "get", "/metrics").await, Verdict::Unknown);
    assert_eq!(ask(Some(""), "get", "/metrics").await, Verdict::Unknown);
    let long = "x".repeat(20 << 10);
    assert_eq!(ask(Some(&long), "get", "/metrics").await, Verdict::Unknown);
    assert_eq!(asked(), 0, "nobody has to be asked about that");

    let reader = Some("reader");
    assert_eq!(ask(reader, "get", "/metrics").await, Verdict::Allowed);
    assert_eq!(asked(), 2);
    assert_eq!(ask(reader, "get", "/metrics").await, Verdict::Allowed);
    assert_eq!(asked(), 0);
    // What is allowed is allowed there and so, and nowhere else.
    assert_eq!(ask(reader, "put", "/metrics").await, Verdict::Forbidden);
    assert_eq!(ask(reader, "get", "/loglevel").await, Verdict::Forbidden);
    assert_eq!(asked(), 4);
    assert_eq!(
        ask(Some("stranger"), "get", "/metrics").await,
        Verdict::Forbidden
    );
    assert_eq!(
        ask(Some("nobody"), "get", "/metrics").await,
        Verdict::Unknown
    );
    assert_eq!(asked(), 3);

    // A no is forgotten sooner than a yes.
    pass(&keeper, NO);
    ask(reader, "get", "/metrics").await;
    assert_eq!(asked(), 0);
    ask(Some("nobody"), "get", "/metrics").await;
    assert_eq!(asked(), 1);
    pass(&keeper, YES);
    ask(reader, "get", "/metrics").await;
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn who_tries_tokens_fills_nothing_and_drives_nobody_out() {
    let (client, asked) = cluster();
    let keeper = Keeper::new(client);
    keeper.ask(Some("reader"), "get", "/metrics").await.unwrap();
    for number in 0..KEPT * 2 {
        let token = number.to_string();
        let verdict = keeper.ask(Some(&token), "get", "/metrics").await.unwrap();
        assert_eq!(verdict, Verdict::Unknown);
        assert!(keeper.known.lock().len() <= KEPT);
    }
    asked.store(0, Ordering::SeqCst);
    keeper.ask(Some("reader"), "get", "/metrics").await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// Lets time pass for what is known.
fn pass(keeper: &Keeper, time: Duration) {
    for (_, until) in keeper.known.lock().values_mut() {
        *until = until.checked_sub(time).unwrap();
    }
}
