//! An admission webhook for tests: it responds by a script, or misbehaves.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use apiserver::pki::{Authority, Identity};
use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::cluster::Answer;

/// Reaction of a webhook to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Responds with a review with this `response`; the UID is filled in unless it is set.
    Response(Value),
    /// Responds with this body.
    Body(Vec<u8>),
    /// Responds with a status code, a content type and a body.
    Code(u16, &'static str, &'static str),
    /// Redirects to another path.
    Redirect(u16, &'static str),
    /// Never responds.
    Hang,
    /// Sends headers only.
    HangAfterHeaders,
    /// Sends the beginning of a body, then closes the connection.
    Drop,
    /// Closes the connection without a response.
    Close,
}

impl Reply {
    /// Allows the request.
    pub fn allow() -> Self {
        Self::Response(json!({"allowed": true}))
    }

    /// Denies the request with a message.
    pub fn deny(message: &str) -> Self {
        Self::Response(json!({"allowed": false, "status": {"message": message}}))
    }

    /// Allows the request with a patch.
    pub fn patch(patch: &Value) -> Self {
        use base64::Engine as _;
        let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
        Self::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
    }
}

/// A request that a webhook received.
#[derive(Debug, Clone)]
pub struct Question {
    /// Path and query.
    pub uri: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub protocol: String,
    /// `User-Agent`.
    pub agent: String,
    /// The review.
    pub review: Value,
}

type Decide = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A webhook on a socket, stopped when dropped.
pub struct WebhookServer {
    port: u16,
    authority: String,
    questions: Arc<Mutex<Vec<Question>>>,
    connections: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl WebhookServer {
    /// Starts a webhook with HTTP/1.1 and HTTP/2; `decide` gets the path and the request of the
    /// review.
    pub async fn start(
        decide: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        Self::with_names(&["127.0.0.1", "localhost"], true, decide).await
    }

    /// Starts a webhook with a certificate for other names, or with HTTP/1.1 only.
    pub async fn with_names(
        names: &[&str],
        http2: bool,
        decide: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        crate::install_crypto();
        let authority = Authority::generate().context("making keys")?;
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let identity = authority.server(&names).context("making a certificate")?;
        Self::presenting(&identity, authority.certificate(), http2, decide).await
    }

    /// Starts a webhook with any certificate; `authority` is what clients verify it against, in PEM.
    pub async fn presenting(
        identity: &Identity,
        authority: &str,
        http2: bool,
        decide: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        crate::install_crypto();
        let mut tls = server_tls(identity)?;
        tls.alpn_protocols = if http2 {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        } else {
            vec![b"http/1.1".to_vec()]
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let questions = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::default();
        let hook = Arc::new(Hook {
            connections: Arc::clone(&connections),
            decide: Box::new(decide),
            questions: Arc::clone(&questions),
        });
        let mut task = JoinSet::new();
        task.spawn(listen(listener, TlsAcceptor::from(Arc::new(tls)), hook));
        Ok(Self {
            port,
            authority: authority.to_owned(),
            questions,
            connections,
            _task: task,
        })
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate authority of its certificate, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// The certificate authority in the encoding of `caBundle`.
    pub fn ca_bundle(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&self.authority)
    }

    /// `clientConfig` of a webhook at a path.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": self.ca_bundle()})
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Requests so far at a path.
    pub fn questions(&self, path: &str) -> Vec<Question> {
        let questions = self.questions.lock();
        questions
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|question| question.uri.split('?').next() == Some(path))
            .cloned()
            .collect()
    }
}

/// Without client certificates: kube-apiserver presents one to every webhook that requests one, and these are not to
/// depend on its authority.
fn server_tls(identity: &Identity) -> anyhow::Result<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let chain = chain
        .collect::<Result<Vec<_>, _>>()
        .context("reading a certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("reading a key")?;
    ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("using a certificate")
}

struct Hook {
    connections: Arc<AtomicUsize>,
    decide: Box<Decide>,
    questions: Arc<Mutex<Vec<Question>>>,
}

async fn listen(listener: TcpListener, tls: TlsAcceptor, hook: Arc<Hook>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        hook.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve_one(stream, tls.clone(), Arc::clone(&hook)));
    }
}

async fn serve_one(stream: TcpStream, tls: TlsAcceptor, hook: Arc<Hook>) {
    // Clients that reject the certificate are part of the tests.
    let Ok(stream) = tls.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| {
        let hook = Arc::clone(&hook);
        async move { hook.answer(request).await }
    });
    // An error is a client that disconnected, or a connection broken on purpose.
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Marks a connection to be closed.
#[derive(Debug, thiserror::Error)]
#[error("closing the connection")]
struct Closing;

impl Hook {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Answer>, Closing> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Closing)?.to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let agent = parts
            .headers
            .get("user-agent")
            .and_then(|a| a.to_str().ok());
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Question {
                uri: parts
                    .uri
                    .path_and_query()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                protocol: format!("{:?}", parts.version),
                agent: agent.unwrap_or_default().to_owned(),
                review: review.clone(),
            });
        reply((self.decide)(parts.uri.path(), &review["request"]), &review).await
    }
}

async fn reply(reply: Reply, review: &Value) -> Result<Response<Answer>, Closing> {
    let body = match reply {
        Reply::Response(mut response) => {
            if response.get("uid").is_none() {
                response["uid"] = review["request"]["uid"].clone();
            }
            let answer = json!({
                "kind": "AdmissionReview",
                "apiVersion": review["apiVersion"],
                "response": response,
            });
            answer.to_string().into_bytes()
        }
        Reply::Body(body) => body,
        Reply::Code(code, kind, text) => {
            let response = Response::builder()
                .status(code)
                .header("content-type", kind);
            return response
                .body(whole(text.as_bytes().to_vec()))
                .map_err(|_| Closing);
        }
        Reply::Redirect(code, path) => {
            let response = Response::builder().status(code).header("location", path);
            return response.body(whole(Vec::new())).map_err(|_| Closing);
        }
        Reply::Hang => std::future::pending().await,
        Reply::HangAfterHeaders => {
            return Ok(Response::new(streamed(stream::pending().boxed())));
        }
        Reply::Drop => {
            let start = stream::once(async { Ok(Frame::data(Bytes::from_static(b"{\"kind\":"))) });
            let end = stream::once(async {
                // Yields, so that buffered data is sent before the connection closes.
                tokio::task::yield_now().await;
                Err(tower::BoxError::from("the connection drops"))
            });
            return Ok(Response::new(streamed(start.chain(end).boxed())));
        }
        Reply::Close => return Err(Closing),
    };
    Ok(Response::new(whole(body)))
}

fn whole(body: Vec<u8>) -> Answer {
    http_body_util::Full::new(Bytes::from(body))
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

fn streamed(frames: stream::BoxStream<'static, Result<Frame<Bytes>, tower::BoxError>>) -> Answer {
    StreamBody::new(frames).boxed_unsync()
}
