//! Sessions: what a cookie holds, and the caches of its user in this process.
//!
//! ```text
//! cookie --SessionKeys--> Record: user, credentials, times, CSRF token
//!                            |
//!                            +-- known here --> Session: client, caches, notifications
//!                            `-- not known --> a new Session (another replica had it, or a restart)
//! ```
//!
//! The credentials of a user are in the encrypted cookie, so every replica with the same keys
//! continues a session. Those of a link belong to the user who runs the console, and stay in its
//! memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, Config};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tower::util::MapRequestLayer;

use crate::keys::{Purpose, SessionKeys};
use crate::pages::placement::RegistryLookups;
use crate::secret;
use crate::viewer::Viewer;

/// An unused session ends after this time.
// Counted from the last request. A page that reloads after changes keeps its session; an open event
// stream alone does not.
const IDLE_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);
/// Every session ends after this time.
const MAX_LIFETIME: SignedDuration = SignedDuration::from_hours(8);
/// Age of the last use in a cookie at which it is written again.
const REISSUE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// Limit of sessions with caches in this process; beyond it the least recently used one loses them.
// A session holds watches and caches of its own, so their number bounds the memory of the operator
// that serves the console.
const MAX_SESSIONS: usize = 200;
/// The user name of unauthenticated requests.
const ANONYMOUS: &str = "system:anonymous";

/// What a session authenticates with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Credentials {
    /// A client in the memory of one process.
    #[serde(rename = "l")]
    Local,
    /// A bearer token of the user.
    #[serde(rename = "t")]
    Token(String),
    /// Tokens of the identity provider.
    #[serde(rename = "p")]
    Provider(Tokens),
}

/// Tokens of an identity provider.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    /// The bearer token for the API server.
    #[serde(rename = "b")]
    pub(crate) bearer: String,
    /// For the next one.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<String>,
    /// The user at the provider; renewed tokens have to be of the same.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// When the bearer token expires.
    #[serde(rename = "e")]
    pub(crate) expires: Timestamp,
}

impl Credentials {
    fn bearer(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Token(token) => Some(token),
            Self::Provider(tokens) => Some(&tokens.bearer),
        }
    }

    /// Whether these are later tokens of the same session.
    fn are_newer_than(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Provider(these), Self::Provider(others)) => these.expires > others.expires,
            _ => false,
        }
    }
}

/// The content of a session cookie. Names are short, because it has to fit.
#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(rename = "i")]
    id: String,
    #[serde(rename = "u")]
    user: String,
    #[serde(rename = "f")]
    csrf: String,
    /// Seconds since 1970, as the next one.
    #[serde(rename = "b")]
    began: i64,
    #[serde(rename = "l")]
    used: i64,
    #[serde(rename = "c")]
    credentials: Credentials,
}

impl Record {
    fn expires(&self) -> Timestamp {
        let used = seconds(self.used).saturating_add(IDLE_TIMEOUT);
        let used = used.unwrap_or(Timestamp::MIN);
        used.min(end(seconds(self.began)))
    }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MIN)
}

/// When a session that began at this time ends.
fn end(began: Timestamp) -> Timestamp {
    began.saturating_add(MAX_LIFETIME).unwrap_or(Timestamp::MIN)
}

/// The bearer token of a client, which can be renewed; clones share it.
#[derive(Clone)]
pub(crate) struct Bearer(Arc<RwLock<HeaderValue>>);

impl Bearer {
    /// A token; `None` if it cannot be part of a header.
    pub(crate) fn new(token: &str) -> Option<Self> {
        Some(Self(Arc::new(RwLock::new(header(token)?))))
    }

    fn set(&self, token: &str) {
        if let Some(value) = header(token) {
            *self.0.write() = value;
        }
    }
}

fn header(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A signed-in user, in this process.
pub(crate) struct Session {
    id: String,
    /// The user name, from the API server.
    pub(crate) user: String,
    /// CSRF token of the session's forms.
    pub(crate) csrf: String,
    /// The user's caches.
    pub(crate) viewer: Viewer,
    /// The user's registry lookups.
    pub(crate) lookups: RegistryLookups,
    began: i64,
    used: Mutex<Timestamp>,
    credentials: Mutex<Credentials>,
    bearer: Option<Bearer>,
    /// Held while tokens are renewed, so that one refresh token is not used twice.
    pub(crate) renewal: tokio::sync::Mutex<()>,
    ended: watch::Sender<bool>,
}

impl Session {
    /// Completes when the session ends.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// The current tokens of the identity provider.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        match &*self.credentials.lock() {
            Credentials::Provider(tokens) => Some(tokens.clone()),
            Credentials::Local | Credentials::Token(_) => None,
        }
    }

    /// Uses these tokens from now on.
    pub(crate) fn renew(&self, tokens: Tokens) {
        if let Some(bearer) = &self.bearer {
            bearer.set(&tokens.bearer);
        }
        *self.credentials.lock() = Credentials::Provider(tokens);
    }

    fn is_over(&self, now: Timestamp) -> bool {
        end(seconds(self.began)) <= now || now.duration_since(*self.used.lock()) > IDLE_TIMEOUT
    }

    /// The content of its cookie.
    fn record(&self, now: Timestamp) -> Record {
        Record {
            id: self.id.clone(),
            user: self.user.clone(),
            csrf: self.csrf.clone(),
            began: self.began,
            used: now.as_second(),
            credentials: self.credentials.lock().clone(),
        }
    }
}

/// A session of a request.
#[derive(Clone)]
pub(crate) struct Resumed {
    /// The session.
    pub(crate) session: Arc<Session>,
    /// Whether the browser needs the cookie again.
    pub(crate) is_stale: bool,
}

/// All sessions.
pub(crate) struct Sessions {
    cluster: Config,
    pub(crate) keys: SessionKeys,
    all: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    /// No sessions yet. `cluster` has no credentials.
    pub(crate) fn new(cluster: Config, keys: SessionKeys) -> Self {
        Self {
            cluster,
            keys,
            all: Mutex::default(),
        }
    }

    /// Begins a session of a user, with credentials that the API server accepts. `client` is that of
    /// a link, or made of the credentials.
    pub(crate) fn begin(
        &self,
        user: String,
        client: Client,
        credentials: Credentials,
        bearer: Option<Bearer>,
        now: Timestamp,
    ) -> Arc<Session> {
        let record = Record {
            id: name(&user),
            user,
            csrf: secret::random(),
            began: now.as_second(),
            used: now.as_second(),
            credentials,
        };
        self.keep(record, client, bearer, now)
    }

    /// The value of a session's cookie.
    pub(crate) fn cookie(&self, session: &Session, now: Timestamp) -> Option<String> {
        let record = serde_json::to_vec(&session.record(now)).ok()?;
        self.keys.seal(Purpose::Session, &record, now)
    }

    /// The session of a cookie; `None` if it has ended, or was not written with our keys.
    pub(crate) fn resume(&self, cookie: &str, now: Timestamp) -> Option<Resumed> {
        let record = self.keys.open(Purpose::Session, cookie)?;
        let record: Record = serde_json::from_slice(&record).ok()?;
        if self.keys.is_ended(&record.id) || record.expires() <= now {
            return None;
        }
        let is_old = now.duration_since(seconds(record.used)) >= REISSUE_INTERVAL;
        let known = {
            let mut all = self.all.lock();
            sweep(&mut all, now);
            all.get(&record.id).cloned()
        };
        if let Some(session) = known {
            let mut used = session.used.lock();
            *used = now.max(*used);
            drop(used);
            let current = session.credentials.lock().clone();
            if record.credentials.are_newer_than(&current)
                && let Credentials::Provider(tokens) = record.credentials
            {
                // Another replica has renewed them.
                session.renew(tokens);
                return Some(Resumed {
                    session,
                    is_stale: is_old,
                });
            }
            let is_stale = is_old || current != record.credentials;
            return Some(Resumed { session, is_stale });
        }
        // A link's client is in the memory of another process, or of none.
        let bearer = Bearer::new(record.credentials.bearer()?)?;
        let client = client(&self.cluster, &bearer).ok()?;
        Some(Resumed {
            session: self.keep(record, client, Some(bearer), now),
            is_stale: is_old,
        })
    }

    /// Ends a session, on all replicas.
    pub(crate) fn end(&self, session: &Session) {
        self.keys.end(&session.id, end(seconds(session.began)));
        if let Some(session) = self.all.lock().remove(&session.id) {
            session.ended.send_replace(true);
        }
    }

    /// Whether a session was ended.
    pub(crate) fn is_ended(&self, session: &Session) -> bool {
        self.keys.is_ended(&session.id)
    }

    /// Drops the sessions that were ended on another replica.
    pub(crate) fn drop_ended(&self) {
        self.all.lock().retain(|id, session| {
            let is_ended = self.keys.is_ended(id);
            if is_ended {
                session.ended.send_replace(true);
            }
            !is_ended
        });
    }

    fn keep(
        &self,
        record: Record,
        client: Client,
        bearer: Option<Bearer>,
        now: Timestamp,
    ) -> Arc<Session> {
        let session = Arc::new(Session {
            id: record.id,
            user: record.user,
            csrf: record.csrf,
            viewer: Viewer::new(client),
            lookups: RegistryLookups::default(),
            began: record.began,
            used: Mutex::new(now),
            credentials: Mutex::new(record.credentials),
            bearer,
            renewal: tokio::sync::Mutex::default(),
            ended: watch::Sender::new(false),
        });
        let mut all = self.all.lock();
        sweep(&mut all, now);
        // Another request of the same browser may have been first.
        if let Some(first) = all.get(&session.id) {
            return Arc::clone(first);
        }
        if all.len() >= MAX_SESSIONS {
            let oldest = all.iter().min_by_key(|(_, session)| *session.used.lock());
            let oldest = oldest.map(|(id, _)| id.clone());
            if let Some(session) = oldest.and_then(|id| all.remove(&id)) {
                session.ended.send_replace(true);
            }
        }
        all.insert(session.id.clone(), Arc::clone(&session));
        session
    }
}

/// A name for a session. It begins with a digest of its user, by whom ended sessions are counted.
fn name(user: &str) -> String {
    let digest = secret::fingerprint(user);
    let user = digest.first_chunk::<6>().copied().unwrap_or_default();
    let own = secret::bytes::<16>();
    format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(user),
        URL_SAFE_NO_PAD.encode(own)
    )
}

fn sweep(all: &mut HashMap<String, Arc<Session>>, now: Timestamp) {
    all.retain(|_, session| {
        let over = session.is_over(now);
        if over {
            session.ended.send_replace(true);
        }
        !over
    });
}

/// Lifetime of the cookie.
pub(crate) fn longest() -> Duration {
    MAX_LIFETIME.unsigned_abs()
}

/// A client with the user's token.
pub(crate) fn client(cluster: &Config, bearer: &Bearer) -> Result<Client, String> {
    let builder = runtime::client::builder(cluster.clone()).map_err(|error| error.to_string())?;
    let bearer = bearer.clone();
    let authorize = MapRequestLayer::new(move |mut request: Request<Body>| {
        let value = bearer.0.read().clone();
        request.headers_mut().insert(AUTHORIZATION, value);
        request
    });
    Ok(builder.with_layer(&authorize).build())
}

/// The user name of a client, from the API server; `None` if it is not authenticated.
pub(crate) async fn whoami(client: &Client) -> Result<Option<String>, kube::Error> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let answer = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    match answer {
        Ok(review) => {
            let user = review.status.and_then(|status| status.user_info);
            let name = user.and_then(|user| user.username);
            Ok(name.filter(|name| name != ANONYMOUS))
        }
        // Unauthenticated users may not even create a SelfSubjectReview.
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
