//! Whose turn it is to write. Replicas keep their pictures of the cluster current all the time, and only
//! the one whose turn it is changes anything.
//!
//! The turn is checked where requests leave the process ([`Turn::fence`]): no controller, and nobody who
//! writes a new one, has to think of it. It lasts as long as the lease was last renewed for, less than
//! anybody else waits before taking over; a process that was stopped and goes on later finds it over.

use std::pin::pin;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::service_fn;

/// Whether it is this process's turn to write; clones share it.
#[derive(Debug, Clone)]
pub struct Turn {
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It may come.
    Waiting,
    /// It is now, and lasts at least until then.
    Until(Instant),
    /// There is nobody else.
    Always,
    /// It was, and does not come again.
    Over,
}

/// A write that was not sent, or whose answer was not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOurTurn {
    /// It was not sent.
    #[error("not sent: this process does not hold the lease")]
    NotSent,
    /// It was sent, and the turn was over before it was answered.
    #[error("given up: the lease could not be renewed while the server was asked")]
    GivenUp,
}

impl Turn {
    /// Of a process that is alone.
    pub fn always() -> Self {
        Self::of(State::Always)
    }

    /// Of a process that stands by.
    pub fn waiting() -> Self {
        Self::of(State::Waiting)
    }

    fn of(state: State) -> Self {
        Self {
            state: watch::Sender::new(state),
        }
    }

    /// Says that it is this process's turn until then, unless it is over for good.
    pub fn lasts(&self, until: Instant) {
        self.state.send_if_modified(|state| match state {
            State::Waiting | State::Until(_) => {
                *state = State::Until(until);
                true
            }
            State::Always | State::Over => false,
        });
    }

    /// Says that it is over for good.
    pub fn end(&self) {
        self.state.send_replace(State::Over);
    }

    /// Whether this process may write.
    pub fn is_now(&self) -> bool {
        self.state.borrow().is_now()
    }

    /// Whether anybody else can have a turn.
    pub fn is_shared(&self) -> bool {
        *self.state.borrow() != State::Always
    }

    /// Waits until this process may write.
    pub async fn begins(&self) {
        let mut state = self.state.subscribe();
        // An error means that the sender is gone; this very turn holds it.
        let _ = state.wait_for(|state| state.is_now()).await;
    }

    /// Waits until this process may not write; at once if it may not now.
    pub async fn ends(&self) {
        let mut state = self.state.subscribe();
        loop {
            let now = *state.borrow_and_update();
            let State::Until(until) = now else {
                if now == State::Always {
                    std::future::pending::<()>().await;
                }
                return;
            };
            if !now.is_now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                _ = state.changed() => {}
            }
        }
    }

    /// A client that reads whenever it is asked to, and writes only in this turn. A write that is under way
    /// when the turn ends is given up.
    #[must_use]
    pub fn fence(&self, client: Client) -> Client {
        if !self.is_shared() {
            return client;
        }
        let namespace = client.default_namespace().to_owned();
        let turn = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, turn) = (client.clone(), turn.clone());
            async move { turn.send(&client, request).await }
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
        if !self.is_now() {
            return Err(kube::Error::Service(Box::new(NotOurTurn::NotSent)));
        }
        let answer = pin!(client.send(request));
        tokio::select! {
            biased;
            () = self.ends() => Err(kube::Error::Service(Box::new(NotOurTurn::GivenUp))),
            answer = answer => answer,
        }
    }
}

impl State {
    fn is_now(self) -> bool {
        match self {
            Self::Always => true,
            Self::Until(until) => Instant::now() < until,
            Self::Waiting | Self::Over => false,
        }
    }
}

#[cfg(test)]
mod tests;
