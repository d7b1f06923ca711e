//! The HTTP client for webhooks. Its errors have the wording of Go's client, because API clients
//! see them.

mod connect;
mod go_errors;
mod pool;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use machinery::json::go_quote;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::pki::Identity;
use crate::server::State;
use connect::{Connected, Dialer};
use pool::Pool;

/// Maximum length of a response.
// client-go has no limit. A patch can hardly be larger than the object, which has one of 1.5 MiB;
// this leaves room for one written as many small operations.
const ANSWER_LIMIT: usize = 16 << 20;
/// Number of cached clients; at this number all of them are dropped for the next one.
// `apiserver/pkg/util/webhook/client.go` keeps 200. A suite that registers webhooks with a fresh
// `caBundle` for each test passes any number, so all are dropped at the limit rather than tracked
// by use.
const KEPT_CLIENTS: usize = 64;
/// Maximum number of redirects.
// Go's `http.Client` follows ten.
const REDIRECTS: usize = 10;
/// Message of an expired deadline.
const EXPIRED: &str = "context deadline exceeded";

/// Address of a webhook and the certificate authorities it is verified against.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    /// Address.
    pub(super) place: Address,
    /// Certificate authorities in PEM; empty for the system's.
    pub(super) authorities: Vec<u8>,
}

/// An address on the network or in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Address {
    /// A URL.
    Url(String),
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Path below it.
        path: String,
        /// Its port.
        port: u16,
    },
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum CallError {
    /// The endpoint cannot be used.
    Setup(String),
    /// The call failed.
    Call(String),
}

impl CallError {
    /// The message after the name of the webhook.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Setup(why) => format!("could not get REST client: {why}"),
            Self::Call(why) => format!("failed to call webhook: {why}"),
        }
    }
}

/// Clients by endpoint; connections are reused.
#[derive(Default)]
pub(crate) struct Clients {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    clients: HashMap<Endpoint, Arc<Client>>,
    /// The client certificate for webhooks that request one.
    identity: Option<Identity>,
}

impl Clients {
    /// Sets the client certificate presented to every webhook that requests one, from the next call
    /// on. kube-apiserver does so for the webhooks that the `kubeConfigFile` of its
    /// AdmissionConfiguration names.
    pub(crate) fn present(&self, identity: Identity) -> Result<(), String> {
        // Parsed here, so that an unusable certificate is an error of its configuration and not of
        // the first admission.
        connect::client_certificate(&identity)?;
        let mut known = self.known.lock();
        known.identity = Some(identity);
        known.clients.clear();
        Ok(())
    }

    /// Posts a review and reads the response.
    pub(super) async fn post(
        &self,
        state: &State,
        endpoint: &Endpoint,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        let client = self.client(endpoint).map_err(CallError::Setup)?;
        client
            .post(state, body, deadline)
            .await
            .map_err(CallError::Call)
    }

    fn client(&self, endpoint: &Endpoint) -> Result<Arc<Client>, String> {
        let mut known = self.known.lock();
        if let Some(client) = known.clients.get(endpoint) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(Client::new(endpoint, known.identity.as_ref())?);
        if known.clients.len() >= KEPT_CLIENTS {
            known.clients.clear();
        }
        known.clients.insert(endpoint.clone(), Arc::clone(&client));
        Ok(client)
    }
}

/// A client for one endpoint.
struct Client {
    /// Without query.
    url: Url,
    /// The Service behind the URL.
    service: Option<(String, String, u16)>,
    tls: Arc<ClientConfig>,
    pool: Pool,
}

impl Client {
    fn new(endpoint: &Endpoint, identity: Option<&Identity>) -> Result<Self, String> {
        let (text, path, service) = match &endpoint.place {
            Address::Url(url) => (url.clone(), None, None),
            Address::Service {
                namespace,
                name,
                path,
                port,
            } => (
                format!("https://{name}.{namespace}.svc:{port}"),
                Some(path.as_str()),
                Some((namespace.clone(), name.clone(), *port)),
            ),
        };
        let mut url = Url::parse(&text).map_err(|error| format!("Unparsable URL: {error}"))?;
        let path = clean(path.unwrap_or_else(|| url.path()));
        url.set_path(&path);
        // HTTP/1.1 connections spread over all endpoints of a Service.
        let many = service.is_none() && connect::is_loopback(&url);
        Ok(Self {
            tls: Arc::new(connect::tls(&endpoint.authorities, many, identity)?),
            url,
            service,
            pool: Pool::default(),
        })
    }

    async fn post(&self, state: &State, body: Bytes, deadline: Instant) -> Result<Bytes, String> {
        let mut url = self.url.clone();
        url.set_query(Some(&format!("timeout={}s", seconds_left(deadline))));
        let mut method = Method::POST;
        let mut location = String::new();
        for _ in 0..=REDIRECTS {
            let failed = |method: &Method, url: &Url, why: &str| {
                let verb = if *method == Method::POST {
                    "Post"
                } else {
                    "Get"
                };
                format!("{verb} {}: {why}", go_quote(&self.shown(url)))
            };
            let answer = timeout_at(deadline, self.send(state, &method, &url, body.clone()))
                .await
                .unwrap_or_else(|_| Err(EXPIRED.to_owned()))
                .map_err(|why| failed(&method, &url, &why))?;
            if let Some((next, given)) = redirect(&answer, &url) {
                location = given;
                if !matches!(answer.status().as_u16(), 307 | 308) {
                    // As browsers and Go do for 301, 302 and 303; the body is dropped.
                    method = Method::GET;
                }
                url = next;
                continue;
            }
            return read(answer, deadline).await;
        }
        let verb = if method == Method::POST {
            "Post"
        } else {
            "Get"
        };
        Err(format!(
            "{verb} {}: stopped after {REDIRECTS} redirects",
            go_quote(&location)
        ))
    }

    /// The URL in messages: the port of a Service is always included.
    fn shown(&self, url: &Url) -> String {
        let text = url.to_string();
        match &self.service {
            Some((_, _, 443)) if url.port().is_none() => {
                let host = url.host_str().unwrap_or_default();
                text.replacen(host, &format!("{host}:443"), 1)
            }
            _ => text,
        }
    }

    /// Sends a request on a pooled connection, or on a new one. A pooled connection may just have
    /// been closed by the peer; then the request is retried.
    async fn send(
        &self,
        state: &State,
        method: &Method,
        url: &Url,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let authority = authority(url);
        if let Some(connection) = self.pool.take(&authority) {
            let request = request(method, url, body.clone(), connection.is_multiplexed())?;
            match self.send_on(&authority, connection, request).await {
                Err(error) if go_errors::was_closed(&error) => {}
                outcome => return outcome.map_err(|error| go_errors::of_transport(&error)),
            }
        }
        let dialer = Dialer {
            state,
            tls: &self.tls,
            service: self
                .service
                .as_ref()
                .filter(|_| url.host_str() == self.url.host_str()),
        };
        let connection = dialer.connect(url).await?;
        let request = request(method, url, body, connection.is_multiplexed())?;
        self.send_on(&authority, connection, request)
            .await
            .map_err(|error| go_errors::of_transport(&error))
    }

    async fn send_on(
        &self,
        authority: &str,
        mut connection: Connected,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let answer = connection.send(request).await?;
        self.pool.put(authority, connection);
        Ok(answer)
    }
}

/// A path normalized like Go's `path.Join`.
fn clean(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

/// Seconds until a deadline, rounded up.
fn seconds_left(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    // Time has passed since the deadline was set.
    let left = left + std::time::Duration::from_millis(1);
    (left.as_secs() + u64::from(left.subsec_millis() > 1)).max(1)
}

fn authority(url: &Url) -> String {
    format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or(443)
    )
}

fn request(
    method: &Method,
    url: &Url,
    body: Bytes,
    multiplexed: bool,
) -> Result<Request<Full<Bytes>>, String> {
    let place = if multiplexed {
        url.to_string()
    } else {
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    };
    let uri: Uri = place
        .parse()
        .map_err(|error| format!("parse {place}: {error}"))?;
    let mut request = Request::builder().method(method).uri(uri);
    if !multiplexed {
        let host = match url.port() {
            Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
            None => url.host_str().unwrap_or_default().to_owned(),
        };
        request = request.header(HOST, host);
    }
    let json = HeaderValue::from_static("application/json");
    request
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, json)
        .body(if *method == Method::POST {
            Full::new(body)
        } else {
            Full::default()
        })
        .map_err(|error| error.to_string())
}

/// The target of a redirect, if the response is one, and its method.
fn redirect(answer: &Response<Incoming>, url: &Url) -> Option<(Url, String)> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = answer.headers().get(LOCATION)?.to_str().ok()?;
    let next = url.join(location).ok()?;
    // Never to plain HTTP: a review contains the object, and with it possibly a Secret.
    (next.scheme() == "https").then(|| (next, location.to_owned()))
}

/// Reads the body of a successful response; of others only the error message.
async fn read(answer: Response<Incoming>, deadline: Instant) -> Result<Bytes, String> {
    let (parts, body) = answer.into_parts();
    let body = http_body_util::Limited::new(body, ANSWER_LIMIT);
    let unreadable = |why: &str| {
        format!("unexpected error when reading response body. Please retry. Original error: {why}")
    };
    let body = match timeout_at(deadline, body.collect()).await {
        Err(_) => return Err(unreadable(EXPIRED)),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(unreadable(&format!(
                "the answer is longer than {ANSWER_LIMIT} bytes"
            )));
        }
        Ok(Err(error)) => return Err(unreadable(&go_errors::of_body(error.as_ref()))),
        Ok(Ok(body)) => body.to_bytes(),
    };
    let code = parts.status.as_u16();
    if (200..=206).contains(&code) {
        if body.is_empty() {
            let kind = parts.headers.get(CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok());
            return Err(format!(
                "0-length response with status code: {code} and content type: {}",
                kind.unwrap_or("application/json")
            ));
        }
        return Ok(body);
    }
    Err(go_errors::of_status(code, &parts.headers, &body))
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        for (given, expected) in [
            ("", "/"),
            ("/", "/"),
            ("/a/", "/a"),
            ("//a//b", "/a/b"),
            ("/a/../b/./c", "/b/c"),
        ] {
            assert_eq!(clean(given), expected, "{given}");
        }
    }
}
