//! The server: shared state, and the processing of a request.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, Response};
use http_body::Body as HttpBody;
use jiff::Timestamp;
use machinery::gvk::split_api_version;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;
use serving::PeerCertificates;
use tokio::sync::watch;
use uuid::Uuid;

use crate::admission::HookSource;
use crate::allocate::{self, Allocations, Reservation};
use crate::auth::{Attributes, Authenticator, Authorizer, Impersonation, UserInfo};
use crate::dispatch;
use crate::negotiate::{Encoding, content_type};
use crate::pki::Identity;
use crate::registry::Registry;
use crate::request::{Query, RequestInfo, Verb};
use crate::resource::Resource;
use crate::respond::{self, Body, Form};
use crate::rest::{Content, Context, drain, read_limited};
use crate::store::{Entry, Expect, Op, Store, StoreError, Write};

/// Maximum duration of a request other than a watch.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum duration of a write.
// `requestTimeoutUpperBound` in `apiserver/pkg/endpoints/handlers/rest.go`, an odd number so that
// it is recognized in logs. One webhook with the maximum timeout of 30 s still fits.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);
/// Maximum size of a stored object, as etcd's default request size.
// `DefaultMaxRequestBytes` in etcd's `server/embed/config.go`. Objects between this and the 3 MiB
// of a body are decoded, admitted and rejected only by the store, as upstream.
const OBJECT_LIMIT: usize = 1_572_864;

/// Message of a request that panicked, as in kube-apiserver.
const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// State shared by all requests.
pub struct State {
    /// Objects.
    pub store: Store,
    /// Served resources.
    pub(crate) registry: Registry,
    /// Authentication.
    pub authenticator: Authenticator,
    /// Authorization.
    pub(crate) authorizer: Authorizer,
    /// Impersonation.
    pub(crate) impersonation: Impersonation,
    /// Address published to clients.
    pub advertised: String,
    /// Whether pods need a service account.
    pub(crate) service_accounts: bool,
    /// Addresses and ports reserved for objects that are not stored yet.
    pub(crate) allocations: Allocations,
    /// Admission webhooks.
    pub(crate) hooks: HookSource,
    /// Whether watches have to end because the server stops.
    pub(crate) stopping: watch::Sender<bool>,
}

impl State {
    /// A random number.
    pub fn random(&self) -> u32 {
        // The first bytes of a version 4 UUID are random; only bits of the seventh and ninth byte
        // are fixed.
        let bytes = Uuid::new_v4().into_bytes();
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// A random number below `limit`.
    pub(crate) fn random_below(&self, limit: u64) -> u64 {
        u64::from(self.random()) % limit.max(1)
    }

    /// Whether a built-in or custom kind of that name is served.
    pub(crate) fn knows_kind(&self, api_version: &str, kind: &str) -> bool {
        split_api_version(api_version).is_some_and(|(group, version)| {
            self.registry
                .snapshot()
                .find_kind(group, version, kind)
                .is_some()
        })
    }

    /// Why an object of another kind than expected does not decode. Decoding precedes the
    /// comparison of kinds.
    pub(crate) fn not_of_its_kind(&self, object: &Value) -> Option<String> {
        let (group, version) = split_api_version(meta::api_version(object))?;
        let snapshot = self.registry.snapshot();
        let own = snapshot.find_kind(group, version, meta::kind(object))?;
        own.strategy.decode(object.clone()).err()
    }

    /// Allocates values that only the server can, such as addresses of services. They are reserved
    /// until the reservation is dropped, after the object is stored.
    pub(crate) fn allocate(
        &self,
        resource: &Resource,
        object: &mut Value,
        live: Option<&Value>,
        dry_run: bool,
    ) -> Result<Option<Reservation<'_>>, Status> {
        if !allocate::is_service(resource) {
            return Ok(None);
        }
        self.allocations
            .allocate(&self.store, object, live, dry_run)
            .map(Some)
    }

    /// Invalidates caches that depend on a resource after a write.
    fn written(&self, resource: &Resource) {
        if resource.info.gvk.group == "admissionregistration.k8s.io" {
            self.hooks.changed();
        }
    }

    /// Stores an object of the served version.
    pub(crate) async fn store_object(
        &self,
        resource: &Resource,
        key: String,
        expect: Expect,
        object: Value,
    ) -> Result<Arc<Entry>, Refused> {
        let template = resource.template(object);
        if template.len() > OBJECT_LIMIT {
            // etcd's own text, without a reason: clients and tests match it.
            let status = Status::plain_500("etcdserver: request is too large");
            return Err(Refused::Failed(Box::new(status)));
        }
        let op = Op::Put(Box::new(move |revision| template.at(revision)));
        let event = self
            .store
            .write(Write {
                key: key.into(),
                expect,
                op,
                form: resource.conversion.form(),
                encoded: true,
            })
            .await?;
        self.written(resource);
        Ok(Arc::clone(&event.entry))
    }

    /// Removes an object; watchers get it as given.
    pub(crate) async fn remove_object(
        &self,
        resource: &Resource,
        entry: &Entry,
        object: Value,
    ) -> Result<(), Refused> {
        let template = resource.template(object);
        let op = Op::Delete(Box::new(move |revision| template.at(revision)));
        let expect = Expect::Revision(entry.mod_revision);
        self.store
            .write(Write {
                key: Arc::clone(&entry.key),
                expect,
                op,
                form: resource.conversion.form(),
                encoded: true,
            })
            .await?;
        self.written(resource);
        Ok(())
    }
}

/// Why a write did not happen.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The object changed; this is its current state.
    Race(Option<Arc<Entry>>),
    /// The store failed.
    Failed(Box<Status>),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { current, .. } => Self::Race(current),
            other => {
                tracing::error!(error = %other, "a write failed");
                Self::Failed(Box::new(Status::internal(&other.to_string())))
            }
        }
    }
}

/// The embedded API server as a `tower::Service`; clones share everything.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<State>,
    user: Option<UserInfo>,
}

impl ApiServer {
    /// A service over shared state.
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state, user: None }
    }

    /// The same server for in-process clients with a fixed user.
    #[must_use]
    pub fn as_user(&self, user: UserInfo) -> Self {
        Self {
            state: Arc::clone(&self.state),
            user: Some(user),
        }
    }

    /// Presents this client certificate to webhooks that request one, so that they can authenticate
    /// this server. By default none is presented, as by a kube-apiserver without an
    /// AdmissionConfiguration.
    pub fn present_to_webhooks(&self, identity: Identity) -> Result<(), String> {
        self.state.hooks.clients.present(identity)
    }

    /// State shared by all requests.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Ends all watches and background tasks; other requests are still served.
    pub fn stop(&self) {
        self.state.stopping.send_replace(true);
    }

    /// Handles one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let now = Timestamp::now();
        let (parts, body) = request.into_parts();
        let audit_id = parts
            .headers
            .get("audit-id")
            .and_then(|value| value.to_str().ok())
            .map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
        let query = Query::parse(parts.uri.query());
        let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
        let limit = request_timeout(info.verb, query.text("timeout"));
        let plain = Form::of(
            &parts.headers,
            query
                .get("pretty")
                .map(|value| !matches!(value, "false" | "0")),
            Encoding::Json,
        );
        let peer = parts.extensions.get::<PeerCertificates>();
        let user = match &self.user {
            Some(user) => Ok(user.clone()),
            None => {
                self.state
                    .authenticator
                    .authenticate(&self.state.store, &parts.headers, peer, now)
            }
        };
        let may = |user: &UserInfo, attributes: &Attributes<'_>| {
            self.state.authorizer.authorize(user, attributes)
        };
        // Impersonation is decided before authorization, with the permissions of the authenticated
        // user; everything after it sees the impersonated one.
        let user = user.and_then(|user| {
            let impersonation = &self.state.impersonation;
            impersonation.resolve(user, &parts.headers, &info, &may)
        });
        // An invalid timeout is rejected first, for any user.
        let outcome = match limit.and_then(|limit| Ok((user?, limit))) {
            Ok((user, limit)) => {
                let media_type = content_type(&parts.headers);
                let watching = info.verb == Verb::Watch;
                let context = Context::new(
                    Arc::clone(&self.state),
                    info,
                    query,
                    parts.headers,
                    user,
                    now,
                    limit,
                );
                let work = async {
                    // Before routing: an unauthorized user gets 403 even for a group that does not
                    // exist, and learns nothing about what is served.
                    if let Err(status) = context.authorize() {
                        drain(body).await;
                        return Err(status);
                    }
                    // Read only after authorization, so that a caller without permissions cannot
                    // make the server buffer 3 MiB.
                    let bytes = match parts.method {
                        Method::GET | Method::HEAD => Bytes::new(),
                        _ => read_limited(body).await?,
                    };
                    let content = Content { media_type, bytes };
                    dispatch::dispatch(&context, &parts.method, &content).await
                };
                // A request that panics must not end the others on its connection. Its state stays
                // consistent: locks are not poisoned, and the store writes a whole transaction or
                // nothing.
                let work = AssertUnwindSafe(work).catch_unwind();
                // A watch ends by its own timer, inside its stream; the response itself is returned
                // at once.
                let answer = if watching {
                    work.await
                } else {
                    tokio::time::timeout_at(context.deadline, work)
                        .await
                        // The abandoned write may still be committed: it was queued, and the store
                        // does not cancel it. Upstream has the same ambiguity with etcd, and
                        // clients have to read before they retry.
                        .unwrap_or_else(|_| Ok(Err(timed_out(context.info.verb))))
                };
                let answer = answer.unwrap_or_else(|_| {
                    tracing::error!(path = context.info.path, audit_id, "a request panicked");
                    Err(Status::internal(PANICKED))
                });
                answer
                    .map(|response| (response, context.take_warnings()))
                    .map_err(|status| (status, context.take_warnings()))
            }
            Err(status) => {
                drain(body).await;
                Err((status, Vec::new()))
            }
        };
        let (mut response, warnings) = outcome
            .unwrap_or_else(|(status, warnings)| (respond::status(&status, plain), warnings));
        if parts.method == Method::HEAD {
            *response.body_mut() = respond::full(Bytes::new());
        }
        respond::finish(&mut response, &audit_id, &warnings, now);
        response
    }
}

/// The response to a request that timed out.
fn timed_out(verb: Verb) -> Status {
    let why = if verb.is_write() {
        "request did not complete within requested timeout - context deadline exceeded"
    } else {
        "request did not complete within the allotted timeout"
    };
    Status::timeout(why, 0)
}

/// `?timeout=` lowers the limit, never raises it. A watch has none.
fn request_timeout(verb: Verb, text: &str) -> Result<Duration, Status> {
    let most = if verb.is_write() {
        WRITE_TIMEOUT
    } else {
        REQUEST_TIMEOUT
    };
    if text.is_empty() || verb == Verb::Watch {
        return Ok(most);
    }
    let requested = machinery::time::parse_duration(text).map_err(|error| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {error}"
        ))
    })?;
    Ok(Duration::try_from(requested)
        .ok()
        .filter(|duration| !duration.is_zero())
        .map_or(most, |duration| duration.min(most)))
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}
