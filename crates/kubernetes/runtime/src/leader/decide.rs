//! Who holds a lease: client-go's rules, with the time as an argument.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::Election;

/// What to do with a lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LeaseStep {
    /// Write this spec: it acquires or renews the lease.
    Hold(LeaseSpec),
    /// Another identity holds it.
    Wait(String),
}

/// Decides about a lease, or its absence, that has not changed for a while.
pub(super) fn decide(
    lease: Option<&LeaseSpec>,
    unchanged: Duration,
    election: &Election,
    now: Timestamp,
) -> LeaseStep {
    let fresh = LeaseSpec {
        holder_identity: Some(election.identity.clone()),
        lease_duration_seconds: i32::try_from(election.timing.lease.as_secs()).ok(),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(0),
        ..LeaseSpec::default()
    };
    let Some(lease) = lease else {
        return LeaseStep::Hold(fresh);
    };
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    let transitions = lease.lease_transitions.unwrap_or_default();
    // A renewal. Identities contain a UUID, so a restarted process never takes this branch for the lease of its
    // predecessor: it waits until that expires, or finds it released.
    if holder == election.identity {
        return LeaseStep::Hold(LeaseSpec {
            acquire_time: lease.acquire_time.clone().or(fresh.acquire_time),
            lease_transitions: Some(transitions),
            ..fresh
        });
    }
    // The duration in the lease counts: its holder may run with other settings.
    let granted = lease
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(election.timing.lease, Duration::from_secs);
    // An empty holder means released. Everything else has to be seen unchanged for its whole duration by this
    // process, even if `renewTime` is hours old: the clock that wrote it may be wrong.
    if !holder.is_empty() && unchanged < granted {
        return LeaseStep::Wait(holder.to_owned());
    }
    LeaseStep::Hold(LeaseSpec {
        lease_transitions: Some(transitions.saturating_add(1)),
        ..fresh
    })
}

/// The spec that releases a lease; `None` if another identity holds it.
pub(super) fn release(
    lease: Option<&LeaseSpec>,
    identity: &str,
    now: Timestamp,
) -> Option<LeaseSpec> {
    let lease = lease.filter(|lease| lease.holder_identity.as_deref() == Some(identity))?;
    Some(LeaseSpec {
        holder_identity: Some(String::new()),
        // The shortest possible duration: older clients ignore the empty holder and wait for it to
        // expire.
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: lease.lease_transitions,
        ..LeaseSpec::default()
    })
}
