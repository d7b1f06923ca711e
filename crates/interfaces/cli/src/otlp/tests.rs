//! What the collector receives.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use bytes::Bytes;
use futures::executor::block_on;
use http::{Request, Response, StatusCode};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, global};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SimpleSpanProcessor;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{field, info_span, subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{Sender, exporter, layer, propagate, provider};

/// A collector that accepts everything.
#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<Vec<Request<Bytes>>>>);

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.0.lock().push(request);
        Ok(Response::new(Bytes::from_static(b"{}")))
    }
}

/// The spans that close while `run` runs, and the resource that emits them.
fn spans(run: impl FnOnce()) -> (Vec<Value>, Value) {
    let collector = Collector::default();
    let exporter = exporter("http://collector:4318/prefix/", collector.clone()).unwrap();
    let provider = provider(SimpleSpanProcessor::new(exporter));
    let subscriber = tracing_subscriber::registry().with(layer(&provider));
    subscriber::with_default(subscriber, run);
    let mut resource = Value::Null;
    let requests = collector.0.lock();
    let spans = requests.iter().flat_map(|request| {
        assert_eq!(request.uri(), "http://collector:4318/prefix/v1/traces");
        assert_eq!(request.headers()["content-type"], "application/json");
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        let sent = &body["resourceSpans"][0];
        resource = sent["resource"]["attributes"].clone();
        let spans = &sent["scopeSpans"][0]["spans"];
        spans.as_array().unwrap().clone()
    });
    (spans.collect(), resource)
}

#[test]
fn span_has_its_parent_and_error() {
    let (spans_sent, resource) = spans(|| {
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
    let named = json!({ "key": "service.name", "value": { "stringValue": "medley" } });
    assert!(resource.as_array().unwrap().contains(&named), "{resource}");
    let [inner, outer] = spans_sent.as_slice() else {
        panic!("{spans_sent:?}");
    };
    assert_eq!(
        (&inner["name"], &outer["name"]),
        (&json!("inner"), &json!("outer"))
    );
    assert_eq!(inner["traceId"], outer["traceId"]);
    assert_eq!(inner["parentSpanId"], outer["spanId"]);
    assert_eq!(outer["parentSpanId"].as_str().unwrap_or_default(), "");
    assert_eq!((&inner["kind"], &outer["kind"]), (&json!(1), &json!(2)));
    let unset = inner["status"]["code"].as_u64().unwrap_or_default();
    assert_eq!(unset, 0, "{inner}");
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

#[test]
fn requests_name_the_span_that_sends_them() {
    global::set_text_map_propagator(TraceContextPropagator::new());
    let request = propagate(Request::new(()));
    assert_eq!(request.headers().get("traceparent"), None);
    let mut sent = Context::new();
    let (spans_sent, _) = spans(|| {
        let span = info_span!(target: runtime::TRACE_TARGET, "reconcile").entered();
        let request = propagate(Request::new(()));
        drop(span);
        let headers = HeaderExtractor(request.headers());
        sent = global::get_text_map_propagator(|it| it.extract(&headers));
        let served = info_span!(target: runtime::TRACE_TARGET, "admission");
        served.set_parent(sent.clone()).unwrap();
        drop(served.entered());
    });
    let [reconcile, admission] = spans_sent.as_slice() else {
        panic!("{spans_sent:?}");
    };
    assert_eq!(
        sent.span().span_context().trace_id().to_string(),
        reconcile["traceId"].as_str().unwrap()
    );
    assert_eq!(admission["traceId"], reconcile["traceId"]);
    assert_eq!(admission["parentSpanId"], reconcile["spanId"]);
}

#[test]
fn collector_is_reached_from_a_thread_without_a_runtime() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let collector = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"spans") {
            let mut part = [0; 1024];
            let length = connection.read(&mut part).unwrap();
            received.extend_from_slice(&part[..length]);
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        connection.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(received).unwrap()
    });
    let sender = Sender::new(format!("{url}/prefix").parse().unwrap()).unwrap();
    let send = || {
        let request = Request::post(format!("{url}/prefix/v1/traces"))
            .header("authorization", "Bearer token")
            .body(Bytes::from_static(b"spans"));
        block_on(sender.send_bytes(request.unwrap()))
    };
    assert_eq!(send().unwrap().status(), StatusCode::OK);
    let received = collector.join().unwrap();
    assert!(
        received.starts_with("POST /prefix/v1/traces HTTP/1.1\r\n"),
        "{received}"
    );
    assert!(
        received.contains("authorization: Bearer token\r\n"),
        "{received}"
    );
    // The collector is gone.
    send().unwrap_err();
}
