//! Sessions in memory, identified by an opaque value in a cookie.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::pages::placement::RegistryLookups;
use crate::secret::{self, Fingerprint};
use crate::viewer::Viewer;

/// An unused session ends after this time.
// Counted from the last request. A page that reloads after changes keeps its session; an open event
// stream alone does not.
const IDLE_TIMEOUT: Duration = Duration::from_mins(30);
/// Every session ends after this time.
const MAX_LIFETIME: Duration = Duration::from_hours(8);
/// Limit of sessions; beyond it the least recently used one ends.
// A session holds watches and caches of its own, so their number bounds the memory of the operator
// that serves the console.
const MAX_SESSIONS: usize = 200;
/// The user name of unauthenticated requests.
const ANONYMOUS: &str = "system:anonymous";

/// A signed-in user.
pub(crate) struct Session {
    /// The user name, from the API server.
    pub(crate) user: String,
    /// CSRF token of the session's forms.
    pub(crate) csrf: String,
    /// The user's caches.
    pub(crate) viewer: Viewer,
    /// The user's registry lookups.
    pub(crate) lookups: RegistryLookups,
    began: Instant,
    used: Mutex<Instant>,
    notice: Mutex<Option<String>>,
    ended: watch::Sender<bool>,
}

impl Session {
    /// Shows a message on the next page.
    pub(crate) fn set_notice(&self, message: String) {
        *self.notice.lock() = Some(message);
    }

    /// Takes the message, so that it is shown once.
    pub(crate) fn take_notice(&self) -> Option<String> {
        self.notice.lock().take()
    }

    /// Completes when the session ends.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) > MAX_LIFETIME
            || now.duration_since(*self.used.lock()) > IDLE_TIMEOUT
    }
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<Fingerprint, Arc<Session>>>,
}

impl Sessions {
    /// Begins a session; returns the secret for the cookie.
    pub(crate) fn begin(&self, user: String, client: Client) -> String {
        let name = secret::random();
        let now = Instant::now();
        let session = Arc::new(Session {
            user,
            csrf: secret::random(),
            viewer: Viewer::new(client),
            lookups: RegistryLookups::default(),
            began: now,
            used: Mutex::new(now),
            notice: Mutex::default(),
            ended: watch::Sender::new(false),
        });
        let mut all = self.all.lock();
        sweep(&mut all, now);
        if all.len() >= MAX_SESSIONS {
            let oldest = all.iter().min_by_key(|(_, session)| *session.used.lock());
            let oldest = oldest.map(|(name, _)| *name);
            if let Some(session) = oldest.and_then(|name| all.remove(&name)) {
                session.ended.send_replace(true);
            }
        }
        // Only the digest is a key. A lookup by the value itself would compare secrets in variable
        // time.
        all.insert(secret::fingerprint(&name), session);
        name
    }

    /// The session of a cookie.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut all = self.all.lock();
        sweep(&mut all, now);
        let session = all.get(&secret::fingerprint(name))?;
        *session.used.lock() = now;
        Some(Arc::clone(session))
    }

    /// Ends a session.
    pub(crate) fn end(&self, name: &str) {
        if let Some(session) = self.all.lock().remove(&secret::fingerprint(name)) {
            session.ended.send_replace(true);
        }
    }
}

fn sweep(all: &mut HashMap<Fingerprint, Arc<Session>>, now: Instant) {
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
    MAX_LIFETIME
}

/// A client with the user's token.
pub(crate) fn client(cluster: &Config, token: &str) -> Result<Client, String> {
    // The type of the token belongs to a crate that we do not depend on; deserializing it is public
    // API.
    let auth_info: AuthInfo =
        serde_json::from_value(json!({ "token": token })).map_err(|error| error.to_string())?;
    let mut config = cluster.clone();
    config.auth_info = auth_info;
    let builder = runtime::client::builder(config).map_err(|error| error.to_string())?;
    Ok(builder.build())
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
