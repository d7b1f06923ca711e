//! Records the requests of several operators: one proxy for each, and one record of all requests, in order.
//!
//! A proxy is a plain HTTP server that forwards everything. It can hold back a response, so that a process
//! can be killed or suspended after the API server has handled a request and before the process knows.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serving::{Incoming, Limits};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// One request, as received.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) by: &'static str,
    pub(crate) method: Method,
    /// The path, with the query.
    pub(crate) path: String,
    /// Whether it is a server-side apply without dry run.
    pub(crate) applies: bool,
    /// The status code of the response, once there is one.
    pub(crate) answer: Option<u16>,
}

impl RecordedRequest {
    /// Whether it is for the leader election lease.
    pub(crate) fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }

    /// Whether it changes the cluster, apart from the lease.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET && !self.is_lease()
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.answer.is_some_and(|code| code < 300)
    }
}

/// All requests in the order of arrival. Clones share the record.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<RecordedRequest>>>);

impl Record {
    pub(crate) fn all(&self) -> Vec<RecordedRequest> {
        self.0.lock().clone()
    }

    fn append(&self, request: RecordedRequest) -> usize {
        let mut all = self.0.lock();
        all.push(request);
        all.len() - 1
    }
}

/// Holds back the response of an apply.
#[derive(Clone)]
pub(crate) struct Trap {
    /// Part of the path of that apply.
    path: &'static str,
    caught: Arc<Notify>,
    freed: Arc<Notify>,
}

impl Trap {
    pub(crate) fn new(path: &'static str) -> Self {
        Self {
            path,
            caught: Arc::default(),
            freed: Arc::default(),
        }
    }

    /// Waits until the API server has responded and the response is held back.
    pub(crate) async fn caught(&self) {
        self.caught.notified().await;
    }

    /// Releases the response.
    pub(crate) fn free(&self) {
        self.freed.notify_one();
    }
}

/// Starts a proxy for an operator; returns the kubeconfig that points to it.
pub(crate) async fn wire(
    client: Client,
    by: &'static str,
    record: &Record,
    trap: Option<Trap>,
    folder: &Path,
) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits {
        clients: 256,
        per_address: 256,
        streams: None,
        drain: Duration::ZERO,
    };
    let record = record.clone();
    let answer = move |request: Request<Incoming>| {
        let (client, record, trap) = (client.clone(), record.clone(), trap.clone());
        async move { pass(client, by, &record, trap, request).await }
    };
    tokio::spawn(serving::serve(listener, None, limits, answer, pending()));
    let path = folder.join(format!("{by}.kubeconfig"));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: wire\n\
         clusters: [{{name: wire, cluster: {{server: \"http://{address}\"}}}}]\n\
         contexts: [{{name: wire, context: {{cluster: wire, user: wire}}}}]\n\
         users: [{{name: wire, user: {{}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

async fn pass(
    client: Client,
    by: &'static str,
    record: &Record,
    trap: Option<Trap>,
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let kind = parts.headers.get(CONTENT_TYPE);
    let applies = kind.is_some_and(|kind| kind.to_str().unwrap().contains("apply-patch"))
        && !path.contains("dryRun=");
    let number = record.append(RecordedRequest {
        by,
        method: parts.method.clone(),
        path: path.clone(),
        applies,
        answer: None,
    });
    let Ok(body) = body.collect().await else {
        return gone();
    };
    let mut passed = Request::builder().method(parts.method).uri(&path);
    for name in [ACCEPT, CONTENT_TYPE] {
        if let Some(value) = parts.headers.get(&name) {
            passed = passed.header(name, value);
        }
    }
    let passed = passed.body(Body::from(body.to_bytes().to_vec())).unwrap();
    let Ok(answer) = client.send(passed).await else {
        return gone();
    };
    if let Some(request) = record.0.lock().get_mut(number) {
        request.answer = Some(answer.status().as_u16());
    }
    if let Some(trap) = trap.filter(|trap| applies && path.contains(trap.path)) {
        trap.caught.notify_one();
        trap.freed.notified().await;
    }
    answer
}

fn gone() -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer
}
