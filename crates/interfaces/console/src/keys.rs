//! The keys that encrypt cookies, and the sessions that were ended before their time.
//!
//! ```text
//! process: random, ends with it        file: read again when it changes
//! Secret:  created and rotated by the replicas, which also share ended sessions through it
//! ```
//!
//! Every replica with the same keys reads the cookies of the others, so a session needs no memory that
//! replicas would have to share.

mod file;
mod ring;
mod secret;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tracing::{info, warn};

pub(crate) use ring::{Key, Purpose};

use ring::KeyRing;

/// Poll interval of the file or Secret. A sign-out on one replica is known to all after this time.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum interval between two writes of the Secret: sign-outs within it are written together.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Ended sessions that are remembered for one user; beyond it the earliest ones are forgotten.
// By user, so that one user who signs in and out all the time cannot revive the sessions of others.
const MAX_ENDED_PER_USER: usize = 32;
/// Ended sessions that are remembered in total: about 200 KiB of the 1 MiB that a Secret may have.
const MAX_ENDED: usize = 2000;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("reading the session keys {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file has no keys.
    #[error(
        "using the session keys {}, line {line}: expected 32 random bytes in base64 on each line, as `openssl rand -base64 32` prints them",
        path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
    },
    /// The Secret cannot be read or written.
    #[error(transparent)]
    Secret(#[from] runtime::Error),
}

/// The keys of a console; clones share them.
#[derive(Clone)]
pub struct SessionKeys {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    ring: RwLock<Arc<KeyRing>>,
    ended: Mutex<Ended>,
    /// A session was ended here, which other replicas have to learn.
    changed: Notify,
}

enum Source {
    Process,
    File(PathBuf),
    Secret {
        secrets: Box<Api<Secret>>,
        namespace: String,
        name: String,
    },
}

/// Ended sessions, and when their cookies would have expired. The name of a session begins with the
/// digest of its user.
pub(crate) type Ended = BTreeMap<String, Timestamp>;

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKeys").finish_non_exhaustive()
    }
}

impl SessionKeys {
    /// A key of this process: its sessions end with it, and no other replica has them.
    pub fn of_process() -> Self {
        Self::with(Source::Process, vec![Key::random(Timestamp::UNIX_EPOCH)])
    }

    /// Keys in a file, one on each line: the first one encrypts, all decrypt. The file is read again
    /// when it changes.
    pub fn of_file(path: &Path) -> Result<Self, KeysError> {
        let keys = file::read(path)?;
        Ok(Self::with(Source::File(path.to_owned()), keys))
    }

    /// Keys in a Secret, which is created if it is missing. Replicas rotate them, and share the
    /// sessions that were ended.
    pub async fn of_secret(client: Client, namespace: &str, name: &str) -> Result<Self, KeysError> {
        let keys = Self::with(
            Source::Secret {
                secrets: Box::new(Api::namespaced(client, namespace)),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            Vec::new(),
        );
        keys.read(Timestamp::now()).await?;
        Ok(keys)
    }

    fn with(source: Source, keys: Vec<Key>) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                ring: RwLock::new(Arc::new(KeyRing::new(keys))),
                ended: Mutex::default(),
                changed: Notify::new(),
            }),
        }
    }

    /// Encrypts a text for a cookie.
    pub(crate) fn seal(&self, purpose: Purpose, plain: &[u8], now: Timestamp) -> Option<String> {
        let ring = Arc::clone(&self.shared.ring.read());
        ring.seal(purpose, plain, now)
    }

    /// Decrypts a cookie; `None` if no key of this console wrote it for this purpose.
    pub(crate) fn open(&self, purpose: Purpose, sealed: &str) -> Option<Vec<u8>> {
        let ring = Arc::clone(&self.shared.ring.read());
        ring.open(purpose, sealed)
    }

    /// Ends a session whose cookies expire at this time.
    pub(crate) fn end(&self, session: &str, until: Timestamp) {
        let mut ended = self.shared.ended.lock();
        ended.insert(session.to_owned(), until);
        prune(&mut ended, Timestamp::now());
        drop(ended);
        self.shared.changed.notify_one();
    }

    /// Whether a session was ended.
    pub(crate) fn is_ended(&self, session: &str) -> bool {
        self.shared.ended.lock().contains_key(session)
    }

    /// Follows changes of other replicas and of the administrator for as long as it is polled.
    pub(crate) async fn follow(&self, changed: impl Fn()) {
        if matches!(self.shared.source, Source::Process) {
            return std::future::pending().await;
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.shared.changed.notified() => {}
            }
            if let Err(error) = self.read(Timestamp::now()).await {
                // The known keys stay in use.
                let error: &dyn std::error::Error = &error;
                warn!(error, "cannot read the session keys; trying again");
            }
            changed();
            tokio::time::sleep(MIN_WRITE_INTERVAL).await;
        }
    }

    async fn read(&self, now: Timestamp) -> Result<(), KeysError> {
        let keys = match &self.shared.source {
            Source::Process => return Ok(()),
            Source::File(path) => file::read(path)?,
            Source::Secret {
                secrets,
                namespace,
                name,
            } => {
                let before = self.shared.ended.lock().clone();
                let (keys, ended) =
                    secret::synchronize(secrets, namespace, name, &before, now).await?;
                let mut known = self.shared.ended.lock();
                // Sessions may have been ended here meanwhile.
                known.extend(ended);
                prune(&mut known, now);
                keys
            }
        };
        let ring = KeyRing::new(keys);
        let mut current = self.shared.ring.write();
        if **current != ring {
            if !current.is_empty() {
                info!("using other session keys");
            }
            *current = Arc::new(ring);
        }
        Ok(())
    }
}

/// Forgets sessions whose cookies have expired, and those beyond the limits.
fn prune(ended: &mut Ended, now: Timestamp) {
    ended.retain(|_, until| *until > now);
    let mut by_user: HashMap<&str, Vec<(Timestamp, &String)>> = HashMap::new();
    for (session, until) in &*ended {
        let user = session.split_once('.').map_or("", |(user, _)| user);
        by_user.entry(user).or_default().push((*until, session));
    }
    let mut surplus: Vec<String> = Vec::new();
    for sessions in by_user.values_mut() {
        sessions.sort_unstable();
        let most = sessions.len().saturating_sub(MAX_ENDED_PER_USER);
        surplus.extend(sessions.drain(..most).map(|(_, session)| session.clone()));
    }
    for session in surplus {
        ended.remove(&session);
    }
    while ended.len() > MAX_ENDED {
        let earliest = ended.iter().min_by_key(|(_, until)| **until);
        let Some(session) = earliest.map(|(session, _)| session.clone()) else {
            return;
        };
        ended.remove(&session);
    }
}

#[cfg(test)]
mod tests;
