//! Who is signed in: sessions in memory, known to browsers by an opaque name in a cookie.

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

use crate::pages::placement::Looked;
use crate::secret::{self, Fingerprint};
use crate::viewer::Viewer;

/// A session that nobody uses ends after this long.
const IDLE: Duration = Duration::from_mins(30);
/// Every session ends after this long.
const LONGEST: Duration = Duration::from_hours(8);
/// Sessions at once; the one that was not used for longest makes room.
const MOST: usize = 200;
/// The user that the API server takes strangers for.
const ANONYMOUS: &str = "system:anonymous";

/// Somebody who is signed in.
pub(crate) struct Session {
    /// Who it is, by the word of the API server.
    pub(crate) user: String,
    /// What forms of this session carry.
    pub(crate) csrf: String,
    /// What they see.
    pub(crate) viewer: Viewer,
    /// What registries said to them.
    pub(crate) looked: Looked,
    began: Instant,
    used: Mutex<Instant>,
    told: Mutex<Option<String>>,
    ended: watch::Sender<bool>,
}

impl Session {
    /// Says something on the next page.
    pub(crate) fn tell(&self, message: String) {
        *self.told.lock() = Some(message);
    }

    /// What is to be said, once.
    pub(crate) fn told(&self) -> Option<String> {
        self.told.lock().take()
    }

    /// Ready when they sign out, or are signed out.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) > LONGEST || now.duration_since(*self.used.lock()) > IDLE
    }
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<Fingerprint, Arc<Session>>>,
}

impl Sessions {
    /// Begins one; the secret for the cookie.
    pub(crate) fn begin(&self, user: String, client: Client) -> String {
        let name = secret::random();
        let now = Instant::now();
        let session = Arc::new(Session {
            user,
            csrf: secret::random(),
            viewer: Viewer::new(client),
            looked: Looked::default(),
            began: now,
            used: Mutex::new(now),
            told: Mutex::default(),
            ended: watch::Sender::new(false),
        });
        let mut all = self.all.lock();
        sweep(&mut all, now);
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, session)| *session.used.lock());
            let oldest = oldest.map(|(name, _)| *name);
            if let Some(session) = oldest.and_then(|name| all.remove(&name)) {
                session.ended.send_replace(true);
            }
        }
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

    /// Ends one.
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

/// The longest that a cookie is of use.
pub(crate) fn longest() -> Duration {
    LONGEST
}

/// A client with somebody's token.
pub(crate) fn client(cluster: &Config, token: &str) -> Result<Client, String> {
    // The type of the token belongs to a crate that is not ours to depend on; reading it is public.
    let auth_info: AuthInfo =
        serde_json::from_value(json!({ "token": token })).map_err(|error| error.to_string())?;
    let mut config = cluster.clone();
    config.auth_info = auth_info;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// Who a client is, by the word of the API server; nobody if it does not know.
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
        // A stranger may not even ask who they are.
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => Ok(None),
        Err(error) => Err(error),
    }
}
