//! Health probes of the webhook.
//!
//! | check of `/readyz` | fails while |
//! |---|---|
//! | `certificate` | no serving certificate is loaded |
//! | `client-ca` | client certificates are required and their CA is not known |
//! | `caches` | caches that decisions depend on have not synced |
//! | `placement` | it is not known whether a placement controller is running |
//! | `registration` | the webhook is not registered, or its registration has another address or CA |
//! | `shutdown` | the process drains |
//!
//! `/livez` and `/healthz` pass while the process answers: a restart would fix none of the above.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use serving::checks::{self, Check};
use serving::{Incoming, Limits, text};
use tokio::net::TcpListener;

use crate::review::Reviewer;

/// Only kubelets and people probe. No draining: the server runs until the process exits.
const LIMITS: Limits = Limits {
    clients: 64,
    per_address: 16,
    streams: None,
    drain: Duration::ZERO,
};

/// Health of a webhook, shared by clones. Created before the webhook, so that probes are answered while certificates
/// are created or the API server is unreachable.
#[derive(Clone, Default)]
pub struct Health {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Set when the certificate is loaded.
    reviewer: OnceLock<Reviewer>,
    registration: Mutex<Registration>,
    draining: AtomicBool,
}

/// State of the registration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Registration {
    /// Registered by other means, or not at all.
    #[default]
    Unmanaged,
    /// Not registered yet.
    Pending,
    /// Registered with the current address and CA.
    Current,
    /// Registered with another address or CA.
    Wrong(String),
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

impl Health {
    /// Makes readiness depend on the registration.
    pub fn expect_registration(&self) {
        self.register(Registration::Pending);
    }

    pub(crate) fn register(&self, registration: Registration) {
        *self.shared.registration.lock() = registration;
    }

    /// Records that the certificate is loaded and reviews are answered.
    pub(crate) fn serving(&self, reviewer: Reviewer) {
        // Only set once: a webhook is served once.
        let _ = self.shared.reviewer.set(reviewer);
    }

    pub(crate) fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Serves probes over plain HTTP; never returns.
    pub async fn serve(self, listener: TcpListener) {
        let answer = move |request: Request<Incoming>| {
            let answer = self.answer(&request);
            let answer = answer.unwrap_or_else(|| {
                text(
                    StatusCode::NOT_FOUND,
                    "not found; paths: /livez, /healthz and /readyz\n",
                )
            });
            std::future::ready(match *request.method() {
                Method::GET | Method::HEAD => answer,
                _ => text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n"),
            })
        };
        serving::serve(listener, None, LIMITS, answer, std::future::pending()).await;
    }

    /// The response to a probe; `None` for other requests.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
        match request.uri().path() {
            "/livez" | "/healthz" => {
                // Liveness checks nothing that depends on the API server: during its outage, kubelets would restart
                // every replica, and the caches would be cold when it returns.
                let checks = [Check::new("ping", Ok(""))];
                Some(checks::answer(request, "livez", &checks))
            }
            "/readyz" => Some(checks::answer(request, "readyz", &self.readiness())),
            _ => None,
        }
    }

    fn readiness(&self) -> Vec<Check> {
        let shared = &self.shared;
        let reviewer = shared.reviewer.get();
        let later = || Err("not checked before the certificate is loaded".to_owned());
        let certificate = match reviewer {
            Some(_) => Ok(""),
            None => Err("the serving certificate is not loaded".to_owned()),
        };
        let client_ca = reviewer.map_or_else(later, |it| it.callers.readiness());
        let caches = reviewer.map_or_else(later, Reviewer::unsynced);
        let placement = reviewer.map_or_else(later, Reviewer::placement_readiness);
        let registration = match &*shared.registration.lock() {
            Registration::Unmanaged => Ok("not managed by this process"),
            Registration::Current => Ok(""),
            Registration::Pending => Err("the webhook is not registered yet".to_owned()),
            Registration::Wrong(why) => Err(why.clone()),
        };
        let shutdown = if shared.draining.load(Ordering::Relaxed) {
            Err("the process is shutting down".to_owned())
        } else {
            Ok("")
        };
        vec![
            Check::new("certificate", certificate),
            Check::new("client-ca", client_ca),
            Check::new("caches", caches),
            Check::new("placement", placement),
            Check::new("registration", registration),
            Check::new("shutdown", shutdown),
        ]
    }
}
