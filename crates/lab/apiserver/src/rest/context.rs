//! The context of a request for its handler.

use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Method};
use jiff::Timestamp;
use machinery::status::Status;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::auth::{self, Attributes, UserInfo};
use crate::kind::WriteContext;
use crate::negotiate::{Representation, negotiate};
use crate::request::{Query, RequestInfo, Verb};
use crate::resource::Resource;
use crate::respond::Form;
use crate::server::State;
use crate::store::Entry;

/// A request on its way through the server.
pub(crate) struct Context {
    /// The server.
    pub state: Arc<State>,
    /// Verb and target.
    pub info: RequestInfo,
    /// Query parameters.
    pub query: Query,
    /// Headers.
    pub headers: HeaderMap,
    /// User.
    pub user: UserInfo,
    /// Time of the request.
    pub now: Timestamp,
    /// Whether the request is the server's own, which is exempt from authorization and webhooks.
    pub internal: bool,
    /// Deadline of the response.
    pub deadline: Instant,
    warnings: Mutex<Vec<String>>,
}

impl Context {
    /// Creates a context.
    pub(crate) fn new(
        state: Arc<State>,
        info: RequestInfo,
        query: Query,
        headers: HeaderMap,
        user: UserInfo,
        now: Timestamp,
        limit: Duration,
    ) -> Self {
        Self {
            state,
            info,
            query,
            headers,
            user,
            now,
            internal: false,
            deadline: Instant::now() + limit,
            warnings: Mutex::default(),
        }
    }

    /// A context for the server's own requests.
    pub(crate) fn internal(state: Arc<State>, now: Timestamp) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver"));
        let query = Query::default();
        let info = RequestInfo::parse(&Method::GET, "/", &query);
        // The identity of upstream's loopback client, which its bootstrap controllers use.
        let user = UserInfo::known("system:apiserver", &[auth::MASTERS]);
        Self {
            internal: true,
            ..Self::new(
                state,
                info,
                query,
                headers,
                user,
                now,
                Duration::from_mins(1),
            )
        }
    }

    /// The stored object of a name; the error is the 404.
    pub(crate) fn entry(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Entry>, Status> {
        let entry = self.state.store.get(&resource.key(namespace, name));
        entry.ok_or_else(|| resource.not_found(name))
    }

    /// Authorizes the request; the error is its 403.
    pub(crate) fn authorize(&self) -> Result<(), Status> {
        auth::authorize(
            &self.state.authorizer,
            &self.user,
            &Attributes::from(&self.info),
        )
    }

    /// Authorizes the creation of a missing object by an update.
    pub(crate) fn authorize_creation(&self) -> Result<(), Status> {
        let creation = Attributes::from(&self.info).with_verb("create");
        auth::authorize(&self.state.authorizer, &self.user, &creation)
    }

    /// Adds a warning to the response.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }

    /// Adds warnings to the response.
    pub(crate) fn warn_all(&self, texts: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(texts);
    }

    /// The warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Time and user, for hooks.
    pub(crate) fn write_context(&self) -> WriteContext<'_> {
        WriteContext {
            now: self.now,
            user: &self.user.name,
        }
    }

    /// The field manager: the parameter, else the first part of the user agent.
    pub(crate) fn manager(&self, given: &str) -> String {
        if given.is_empty() {
            let agent = self.headers.get(USER_AGENT).and_then(|v| v.to_str().ok());
            machinery::apply::manager_from_user_agent(agent.unwrap_or_default())
        } else {
            given.to_owned()
        }
    }

    /// The requested representation.
    pub(crate) fn representation(&self, resource: &Resource) -> Result<Representation, Status> {
        let watch = self.info.verb == Verb::Watch;
        negotiate(&self.headers, resource.custom.is_none(), watch)
    }

    /// The form of a response.
    pub(crate) fn form(&self, representation: Representation) -> Form {
        let pretty = self
            .query
            .get("pretty")
            .map(|value| !matches!(value, "false" | "0"));
        Form::of(&self.headers, pretty, representation.encoding)
    }
}
