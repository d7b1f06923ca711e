//! One of many: replicas agree by a Lease on who works, as client-go's leader election does.
//!
//! The holder renews the lease every two seconds. Who waits takes it over when it has not changed
//! for fifteen seconds on the waiter's own clock, so clocks need not agree. A holder that could not
//! renew for ten seconds stops by itself, before anybody else starts: its [`Turn`] ends then, whatever it is
//! doing.

mod decide;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::{Absent as _, Error, Turn};
use decide::{Step, decide};

/// How long things may take. The defaults are client-go's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease that is not renewed stays its holder's.
    pub lease: Duration,
    /// How long a holder tries to renew before it gives up; shorter than `lease`.
    pub renew: Duration,
    /// How long is waited between tries; shorter than `renew`.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// What is elected for, and who stands.
#[derive(Debug, Clone)]
pub struct Election {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who stands; nobody else may be called the same.
    pub identity: String,
    /// How long things may take.
    pub timing: Timing,
}

impl Election {
    /// Waits until the lease is this one's, and with it the turn. Failures are waited out; dropping this
    /// gives up.
    pub async fn acquire(self, client: Client, turn: Turn) -> Leadership {
        let mut leadership = Leadership {
            api: Api::namespaced(client, &self.namespace),
            election: self,
            turn,
            seen: None,
            renewed: Instant::now(),
        };
        let mut waiting_for = None;
        loop {
            let limit = leadership.election.timing.renew;
            match tokio::time::timeout(limit, leadership.attempt()).await {
                Ok(Ok(Attempt::Held)) => return leadership,
                Ok(Ok(Attempt::Other(holder))) if waiting_for.as_ref() != Some(&holder) => {
                    info!(
                        lease = leadership.name(),
                        holder, "another one leads; waiting"
                    );
                    waiting_for = Some(holder);
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    warn!(lease = leadership.name(), %error, "cannot become the leader; trying again");
                }
                Err(_) => {
                    warn!(
                        lease = leadership.name(),
                        "the server does not answer; trying again"
                    );
                }
            }
            tokio::time::sleep(leadership.election.timing.retry).await;
        }
    }
}

/// A lease that is held. It is lost when it is not [kept](Self::keep).
pub struct Leadership {
    election: Election,
    /// Lasts for as long as the lease is sure to be this one's.
    turn: Turn,
    api: Api<Lease>,
    seen: Option<Seen>,
    /// When the last write that went well was begun: the lease lasts from then at least.
    renewed: Instant,
}

/// The lease as it was last seen to change.
struct Seen {
    lease: Lease,
    since: Instant,
}

/// What a try to take or renew a lease gives.
enum Attempt {
    Held,
    /// Somebody has it.
    Other(String),
    /// Somebody wrote at the same time.
    Overtaken,
}

impl Leadership {
    /// Renews the lease until it is lost; says why it is.
    pub async fn keep(&mut self) -> Error {
        let timing = self.election.timing;
        loop {
            tokio::time::sleep(timing.retry).await;
            // A server that does not answer is as good as one that refuses.
            let deadline = self.renewed + timing.renew;
            match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(Ok(Attempt::Held)) | Err(_) => {}
                Ok(Ok(Attempt::Other(holder))) => {
                    return self.lost(&format!("{holder:?} holds it"));
                }
                Ok(Ok(Attempt::Overtaken)) => debug!(lease = self.name(), "overtaken"),
                Ok(Err(error)) => {
                    warn!(lease = self.name(), %error, "cannot renew the lease; trying again");
                }
            }
            if self.renewed.elapsed() >= timing.renew {
                let limit = timing.renew.as_secs();
                return self.lost(&format!("it could not be renewed for {limit} s"));
            }
        }
    }

    /// Gives the lease back, so that nobody has to wait for it to expire.
    pub async fn release(mut self) -> Result<(), Error> {
        // Before anybody else can begin.
        self.turn.end();
        let what = format!("releasing the lease {}", self.name());
        let Some(lease) = self.look().await.map_err(Error::api(&what))? else {
            return Ok(());
        };
        let Some(spec) = decide::release(
            lease.spec.as_ref(),
            &self.election.identity,
            Timestamp::now(),
        ) else {
            return Ok(());
        };
        let released = Lease {
            spec: Some(spec),
            ..lease
        };
        let written = self
            .api
            .replace(&self.election.name, &PostParams::default(), &released)
            .await;
        written.map(drop).map_err(Error::api(what))
    }

    /// The lease as it was last written, for events about it.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|seen| &seen.lease)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.election.namespace, self.election.name)
    }

    fn lost(&self, why: &str) -> Error {
        self.turn.end();
        Error::Late(format!("keeping the lease {}: {why}", self.name()))
    }

    /// Looks at the lease, and takes or renews it if that is allowed.
    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        let begun = Instant::now();
        let found = self.look().await?;
        let unchanged = self.seen.as_ref().map(|seen| seen.since.elapsed());
        let step = decide(
            found
                .as_ref()
                .map(|lease| lease.spec.clone().unwrap_or_default())
                .as_ref(),
            unchanged.unwrap_or_default(),
            &self.election,
            Timestamp::now(),
        );
        let spec = match step {
            Step::Wait(holder) => return Ok(Attempt::Other(holder)),
            Step::Hold(spec) => spec,
        };
        let written = match found {
            Some(lease) => {
                let lease = Lease {
                    spec: Some(spec),
                    ..lease
                };
                self.api
                    .replace(&self.election.name, &PostParams::default(), &lease)
                    .await
            }
            None => self.create(spec).await,
        };
        match written {
            Ok(lease) => {
                self.saw(lease);
                self.renewed = begun;
                self.turn.lasts(begun + self.election.timing.renew);
                Ok(Attempt::Held)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Overtaken),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, spec: LeaseSpec) -> Result<Lease, kube::Error> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.election.name.clone()),
                namespace: Some(self.election.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        };
        self.api.create(&PostParams::default(), &lease).await
    }

    /// The lease there is; remembers since when it is as it is.
    async fn look(&mut self) -> Result<Option<Lease>, kube::Error> {
        let found = self.api.get(&self.election.name).await.or_absent()?;
        match &found {
            Some(lease) => self.saw(lease.clone()),
            None => self.seen = None,
        }
        Ok(found)
    }

    fn saw(&mut self, lease: Lease) {
        if self.lease().is_none_or(|seen| seen.spec != lease.spec) {
            let since = Instant::now();
            self.seen = Some(Seen { lease, since });
        }
    }
}

#[cfg(test)]
mod tests;
