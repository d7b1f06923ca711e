//! Whether a placement controller is running, which will release the pods that admission gates.
//!
//! The controller renews a Lease of its own, [`LEASE`], from its work queue. The Lease of the leader election would not do:
//! it says that a process leads, not that this process runs placement, nor that its workers make progress.
//!
//! The webhook reads the Lease periodically and compares what it reads with what it read before, on its own monotonic
//! clock, as client-go's leader election does: the clock of another host is never trusted. A Lease that was read once
//! proves nothing, since its holder may be gone for days; a renewal that was observed does.

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;

/// Name of the Lease, in the namespace of the operator.
pub const LEASE: &str = "medley-placement";

/// The durations of the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// How long after a renewal pods may be gated.
    pub duration: Duration,
    /// The interval of renewals, and of reads while the Lease is renewed.
    pub renew: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self {
            // Twice the 15 s that a standby waits for the lease of the leader election, so that pods are gated and
            // released as usual while another replica takes over.
            duration: Duration::from_secs(30),
            renew: Duration::from_secs(5),
        }
    }
}

impl LeaseTiming {
    /// The wait before the next read of the Lease. Shorter while no renewal is known: pods that arrive in the meantime
    /// are admitted without placement.
    pub fn until_next_read(&self, running: Controller) -> Duration {
        match running {
            Controller::Running => self.renew,
            Controller::NotRunning => self.renew / 10,
        }
    }
}

/// Whether a placement controller is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// It renewed its Lease recently: pods may be gated.
    Running,
    /// No renewal is known: no pod may be gated.
    NotRunning,
}

/// A read of the Lease, on the monotonic clock of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRead {
    /// When the request was begun.
    pub begun: Duration,
    /// When the response arrived.
    pub ended: Duration,
}

/// What a process knows about the Lease from its reads.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedLease {
    timing: LeaseTiming,
    /// The last read and what it returned; `None` for a Lease that is absent or released.
    last: Option<(LeaseRead, Option<LeaseSpec>)>,
    /// The earliest possible time of the last observed renewal.
    renewed: Option<Duration>,
    /// Since when no change was observed.
    unchanged_since: Duration,
}

impl ObservedLease {
    /// Knows nothing yet.
    pub fn new(timing: LeaseTiming, now: Duration) -> Self {
        Self {
            timing,
            last: None,
            renewed: None,
            unchanged_since: now,
        }
    }

    /// Records a successful read; `None` if there is no Lease.
    pub fn observe(&mut self, read: LeaseRead, lease: Option<&LeaseSpec>) {
        // An empty holder means released, as in leader election.
        let lease = lease.filter(|lease| {
            let holder = lease.holder_identity.as_deref();
            holder.is_some_and(|holder| !holder.is_empty())
        });
        if let Some((before, seen)) = &self.last {
            if seen.as_ref() != lease {
                // Not `read`: it was renewed at some time between the two reads. After an outage of the API server
                // the earlier one is long ago, and the renewal may be as well.
                self.renewed = lease.map(|_| before.begun);
                self.unchanged_since = read.ended;
            } else if read.begun.saturating_sub(before.ended) > self.timing.duration / 2 {
                // While the API server could not be reached, the controller could not renew either.
                self.unchanged_since = read.ended;
            }
        }
        self.last = Some((read, lease.cloned()));
    }

    /// Whether a pod may be gated now.
    pub fn controller(&self, now: Duration) -> Controller {
        let renewed = self.renewed;
        if renewed.is_some_and(|renewed| now < renewed.saturating_add(self.timing.duration)) {
            Controller::Running
        } else {
            Controller::NotRunning
        }
    }

    /// Whether the controller has been gone for so long that others have to release the pods it left gated. At its
    /// start a process has to wait for that, too: the controller may not have renewed its Lease yet.
    pub fn is_abandoned(&self, now: Duration) -> bool {
        self.last.is_some()
            && self.controller(now) == Controller::NotRunning
            && now.saturating_sub(self.unchanged_since) >= self.timing.duration
    }

    /// Whether reads so far decide whether a controller is running. A Lease that was read once does not.
    pub fn is_known(&self, now: Duration) -> bool {
        match &self.last {
            None => false,
            Some((_, None)) => true,
            Some((_, Some(_))) => {
                self.controller(now) == Controller::Running
                    || now.saturating_sub(self.unchanged_since) >= self.timing.renew * 2
            }
        }
    }
}
