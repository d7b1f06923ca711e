//! Links that sign in once.
//!
//! Whoever runs `medley console` or `medley up` has credentials already. The link hands them to the
//! browser of the same person, without a token that could be kept.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;

use crate::secret::{self, Fingerprint};

/// How long a link can be used.
pub(crate) const LIFETIME: Duration = Duration::from_mins(10);

/// The links that were not used yet.
#[derive(Default)]
pub(crate) struct Links {
    open: Mutex<HashMap<Fingerprint, (Instant, Client)>>,
}

impl Links {
    /// The code of a new link.
    pub(crate) fn mint(&self, client: Client) -> String {
        let code = secret::random();
        let mut open = self.open.lock();
        open.retain(|_, (made, _)| made.elapsed() < LIFETIME);
        open.insert(secret::fingerprint(&code), (Instant::now(), client));
        code
    }

    /// Whether a code can be used.
    pub(crate) fn holds(&self, code: &str) -> bool {
        let open = self.open.lock();
        let link = open.get(&secret::fingerprint(code));
        link.is_some_and(|(made, _)| made.elapsed() < LIFETIME)
    }

    /// Uses a code: nobody can use it again.
    pub(crate) fn redeem(&self, code: &str) -> Option<Client> {
        let link = self.open.lock().remove(&secret::fingerprint(code));
        link.filter(|(made, _)| made.elapsed() < LIFETIME)
            .map(|(_, client)| client)
    }
}
