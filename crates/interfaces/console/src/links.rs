//! Single-use sign-in links.
//!
//! The user who runs `medley console` or `medley up` already has credentials. The link hands them
//! to their browser, without a token that could be stored.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;

use crate::secret::{self, Fingerprint};

/// How long a link is valid.
pub(crate) const LIFETIME: Duration = Duration::from_mins(10);

/// The unused links.
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

    /// Whether a code is valid.
    pub(crate) fn holds(&self, code: &str) -> bool {
        let open = self.open.lock();
        let link = open.get(&secret::fingerprint(code));
        link.is_some_and(|(made, _)| made.elapsed() < LIFETIME)
    }

    /// Uses a code, which is invalid afterwards.
    pub(crate) fn redeem(&self, code: &str) -> Option<Client> {
        // Removed before its age is checked: of two requests with one code only one can win.
        let link = self.open.lock().remove(&secret::fingerprint(code));
        link.filter(|(made, _)| made.elapsed() < LIFETIME)
            .map(|(_, client)| client)
    }
}
