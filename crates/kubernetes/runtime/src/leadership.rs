//! The write fence: only the replica that holds the lease sends writes.
//!
//! All replicas keep warm caches. The check sits in the HTTP client ([`WriteFence::fence`]), not in the
//! controllers, so that a controller cannot forget it. Leadership lasts as long as the lease was last
//! renewed for, which is less than another replica waits before taking over (10 s against 15 s by
//! default), measured on the monotonic clock: a process that was suspended wakes up as a follower. This
//! is stricter than client-go, whose leader may still have requests in flight.

use std::pin::pin;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::service_fn;

/// Leadership of this process, shared by clones.
#[derive(Debug, Clone)]
pub struct WriteFence {
    state: watch::Sender<FenceState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FenceState {
    /// Another replica may hold the lease.
    Follower,
    /// The lease is held, and certain until this instant.
    Leader(Instant),
    /// Leader election is disabled: a single replica always leads.
    Unelected,
    /// Leadership was lost or released; this process never leads again.
    Resigned,
}

/// A write that the fence did not send, or whose response it stopped waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FenceError {
    /// The write was not sent: another replica may be the leader.
    #[error("write not sent: this replica does not hold the lease")]
    NotLeader,
    /// The write was sent, but the lease expired before the API server answered; it may have been
    /// applied.
    #[error("write abandoned: the lease expired before the API server answered")]
    LeaseExpired,
}

impl WriteFence {
    /// The fence of a process without leader election: it always leads.
    pub fn unelected() -> Self {
        Self::of(FenceState::Unelected)
    }

    /// The fence of a follower; [`WriteFence::renew_until`] makes it the leader.
    pub fn follower() -> Self {
        Self::of(FenceState::Follower)
    }

    fn of(state: FenceState) -> Self {
        Self {
            state: watch::Sender::new(state),
        }
    }

    /// Makes this process the leader until then. Has no effect after [`WriteFence::resign`].
    pub fn renew_until(&self, until: Instant) {
        self.state.send_if_modified(|state| match state {
            FenceState::Follower | FenceState::Leader(_) => {
                *state = FenceState::Leader(until);
                true
            }
            // A renewal that was in flight while `release` resigned must not lead
            // again: the lease may be gone by then.
            FenceState::Unelected | FenceState::Resigned => false,
        });
    }

    /// Resigns for good.
    pub fn resign(&self) {
        self.state.send_replace(FenceState::Resigned);
    }

    /// Whether this process is the leader.
    pub fn is_leader(&self) -> bool {
        self.state.borrow().is_leader()
    }

    /// Whether leader election is enabled, so that another replica may lead.
    pub fn is_elected(&self) -> bool {
        *self.state.borrow() != FenceState::Unelected
    }

    /// Waits until this process is the leader.
    pub async fn wait_for_leadership(&self) {
        let mut state = self.state.subscribe();
        // Fails only when the sender is dropped, and `self` holds it.
        let _ = state.wait_for(|state| state.is_leader()).await;
    }

    /// Waits until this process is not the leader; returns at once if it is not now.
    pub async fn wait_for_loss(&self) {
        let mut state = self.state.subscribe();
        loop {
            let now = *state.borrow_and_update();
            let FenceState::Leader(until) = now else {
                if now == FenceState::Unelected {
                    // A single process never loses leadership, so the `select!` in
                    // `send` must never take this branch.
                    std::future::pending::<()>().await;
                }
                return;
            };
            if !now.is_leader() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                _ = state.changed() => {}
            }
        }
    }

    /// Wraps a client: reads always pass, writes only while this process leads. A write in flight when
    /// leadership ends fails with [`FenceError::LeaseExpired`].
    #[must_use]
    pub fn fence(&self, client: Client) -> Client {
        if !self.is_elected() {
            return client;
        }
        let namespace = client.default_namespace().to_owned();
        let fence = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, fence) = (client.clone(), fence.clone());
            async move { fence.send(&client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(
        &self,
        client: &Client,
        request: Request<Body>,
    ) -> Result<http::Response<Body>, kube::Error> {
        if matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            return client.send(request).await;
        }
        if !self.is_leader() {
            return Err(kube::Error::Service(Box::new(FenceError::NotLeader)));
        }
        // The check above alone would leave a gap: a process that is suspended between it and the connection wakes up
        // with the request still to be sent.
        let answer = pin!(client.send(request));
        tokio::select! {
            // Loss first: if the lease has expired and the response is there as well, the caller must not go on as a
            // leader. The write is reported as abandoned although it succeeded; the next leader finds its result.
            biased;
            () = self.wait_for_loss() => Err(kube::Error::Service(Box::new(FenceError::LeaseExpired))),
            answer = answer => answer,
        }
    }
}

impl FenceState {
    fn is_leader(self) -> bool {
        match self {
            Self::Unelected => true,
            Self::Leader(until) => Instant::now() < until,
            Self::Follower | Self::Resigned => false,
        }
    }
}

#[cfg(test)]
mod tests;
