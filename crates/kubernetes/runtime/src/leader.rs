//! Leader election with a Lease, by the rules of client-go's `tools/leaderelection`.
//!
//! The holder renews the lease every two seconds. A standby takes it over when it has not changed for
//! fifteen seconds on the standby's own clock, so clocks need not agree. A holder that could not renew
//! for ten seconds stops by itself before a standby starts: its [`WriteFence`] ends then, whatever it is
//! doing.

mod decide;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::{Absent as _, Error, WriteFence};
use decide::{LeaseStep, decide};

/// The durations of leader election. The defaults are client-go's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease that is not renewed stays with its holder.
    pub lease: Duration,
    /// How long a holder tries to renew before it resigns; shorter than `lease`.
    pub renew: Duration,
    /// The wait between attempts; shorter than `renew`.
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

/// The lease and the identity of a candidate.
#[derive(Debug, Clone)]
pub struct Election {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// The identity of this candidate; unique among the replicas.
    pub identity: String,
    /// The durations of this election.
    pub timing: Timing,
}

impl Election {
    /// Waits until this process holds the lease, and makes it the leader. Failures are retried;
    /// dropping the future withdraws.
    pub async fn acquire(self, client: Client, fence: WriteFence) -> Leadership {
        let mut leadership = Leadership {
            api: Api::namespaced(client, &self.namespace),
            election: self,
            fence,
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
                        holder, "another replica leads; waiting"
                    );
                    waiting_for = Some(holder);
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    warn!(lease = leadership.name(), %error, "cannot acquire the lease; retrying");
                }
                Err(_) => {
                    warn!(
                        lease = leadership.name(),
                        "no answer from the API server; retrying"
                    );
                }
            }
            // No jitter, unlike client-go's factor of 1.2: a handful of replicas cause no load, and optimistic
            // locking decides between those that write at once.
            tokio::time::sleep(leadership.election.timing.retry).await;
        }
    }
}

/// A held lease. It expires unless [renewed](Self::keep).
pub struct Leadership {
    election: Election,
    /// Certain for as long as the lease cannot be taken over.
    fence: WriteFence,
    api: Api<Lease>,
    seen: Option<Seen>,
    /// When the last successful write was begun: the lease lasts at least from then.
    renewed: Instant,
}

/// The lease as it was when it last changed, and when that was observed.
struct Seen {
    lease: Lease,
    since: Instant,
}

/// The outcome of an attempt to acquire or renew a lease.
enum Attempt {
    Held,
    /// Another identity holds it.
    Other(String),
    /// Another process wrote at the same time.
    Conflict,
}

impl Leadership {
    /// Renews the lease until it is lost; returns why.
    pub async fn keep(&mut self) -> Error {
        let timing = self.election.timing;
        loop {
            tokio::time::sleep(timing.retry).await;
            // A server that does not answer counts as one that refuses.
            let deadline = self.renewed + timing.renew;
            match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(Ok(Attempt::Held)) | Err(_) => {}
                Ok(Ok(Attempt::Other(holder))) => {
                    return self.lost(&format!("{holder:?} holds it"));
                }
                Ok(Ok(Attempt::Conflict)) => {
                    debug!(lease = self.name(), "conflicting write; retrying");
                }
                Ok(Err(error)) => {
                    warn!(lease = self.name(), %error, "cannot renew the lease; retrying");
                }
            }
            if self.renewed.elapsed() >= timing.renew {
                let limit = timing.renew.as_secs();
                return self.lost(&format!("it could not be renewed for {limit} s"));
            }
        }
    }

    /// Releases the lease, so that a standby need not wait for it to expire.
    pub async fn release(mut self) -> Result<(), Error> {
        // Before a standby can acquire it.
        self.fence.resign();
        let what = format!("releasing the lease {}", self.name());
        let Some(lease) = self.observe().await.map_err(Error::api(&what))? else {
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

    /// The lease as it was last written, as the subject of events.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|seen| &seen.lease)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.election.namespace, self.election.name)
    }

    fn lost(&self, why: &str) -> Error {
        self.fence.resign();
        Error::Late(format!("keeping the lease {}: {why}", self.name()))
    }

    /// Reads the lease, and acquires or renews it if permitted.
    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        // Before the read, not before the write: everything that follows happens later, so leadership that is counted
        // from here ends too early rather than too late.
        let begun = Instant::now();
        let found = self.observe().await?;
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
            LeaseStep::Wait(holder) => return Ok(Attempt::Other(holder)),
            LeaseStep::Hold(spec) => spec,
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
                self.fence.renew_until(begun + self.election.timing.renew);
                Ok(Attempt::Held)
            }
            // `replace` carries the resource version that was read, so of two candidates that saw the lease expire,
            // one gets 409. It must not conclude that it lost an election it never held: it reads again.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Conflict),
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

    /// Reads the lease; records since when it has been unchanged.
    async fn observe(&mut self) -> Result<Option<Lease>, kube::Error> {
        let found = self
            .api
            .get(&self.election.name)
            .await
            .not_found_as_none()?;
        match &found {
            Some(lease) => self.saw(lease.clone()),
            None => self.seen = None,
        }
        Ok(found)
    }

    fn saw(&mut self, lease: Lease) {
        // Only the spec: another writer may touch labels or managed fields of a Lease, which proves nothing about its
        // holder. `since` is our own clock; `renewTime` is never compared, because it is the holder's.
        if self.lease().is_none_or(|seen| seen.spec != lease.spec) {
            let since = Instant::now();
            self.seen = Some(Seen { lease, since });
        }
    }
}

#[cfg(test)]
mod tests;
