//! Encoding of spans.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::{field, info_span, subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use super::{Collect, QUEUE_CAPACITY, body};

/// The spans that close while `run` runs.
fn spans(run: impl FnOnce()) -> Vec<Value> {
    let (sender, mut receiver) = mpsc::channel(QUEUE_CAPACITY);
    let layer = Collect::new(sender).with_filter(filter_fn(Collect::wants));
    let subscriber = tracing_subscriber::registry().with(layer);
    subscriber::with_default(subscriber, run);
    let mut batch = Vec::new();
    while let Ok(span) = receiver.try_recv() {
        batch.push(span);
    }
    let body = body(&batch);
    let named = &body["resourceSpans"][0]["resource"]["attributes"][0];
    assert_eq!(
        named,
        &json!({ "key": "service.name", "value": { "stringValue": "medley" } })
    );
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    spans.as_array().unwrap().clone()
}

#[test]
fn span_has_its_parent_and_error() {
    let spans_sent = spans(|| {
        let outer = info_span!(
            target: runtime::TRACE_TARGET, "outer",
            object = %"a/b", count = 3, otel.kind = "server", error = field::Empty,
        );
        let inside = outer.enter();
        // Spans of libraries are not exported.
        drop(info_span!("noise").entered());
        drop(info_span!(target: runtime::TRACE_TARGET, "inner").entered());
        drop(inside);
        outer.record("error", field::display("it broke"));
    });
    let [inner, outer] = spans_sent.as_slice() else {
        panic!("{spans_sent:?}");
    };
    assert_eq!(
        (&inner["name"], &outer["name"]),
        (&json!("inner"), &json!("outer"))
    );
    assert_eq!(inner["traceId"], outer["traceId"]);
    assert_eq!(inner["parentSpanId"], outer["spanId"]);
    assert_eq!(outer.get("parentSpanId"), None);
    assert_eq!((&inner["kind"], &outer["kind"]), (&json!(1), &json!(2)));
    assert_eq!(inner.get("status"), None);
    assert_eq!(outer["status"], json!({ "code": 2, "message": "it broke" }));
    assert_eq!(
        outer["attributes"],
        json!([
            { "key": "object", "value": { "stringValue": "a/b" } },
            { "key": "count", "value": { "intValue": "3" } },
        ])
    );
    assert_eq!(outer["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(outer["spanId"].as_str().unwrap().len(), 16);
    let time = |span: &Value, name: &str| -> u128 { span[name].as_str().unwrap().parse().unwrap() };
    let [begun, ended] = ["startTimeUnixNano", "endTimeUnixNano"];
    assert!(time(outer, begun) <= time(inner, begun));
    assert!(time(inner, ended) <= time(outer, ended));
}
