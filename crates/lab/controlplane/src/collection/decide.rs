//! What becomes of an object, given how its owners stand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PropagationPolicy;

use super::node::{FOREGROUND, ORPHAN, has_finalizer};

/// How an owner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there.
    Solid,
    /// It is not there.
    Dangling,
    /// It is there until its dependents are gone.
    Waiting,
}

/// What hangs on the object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// Nothing.
    Nothing,
    /// Some dependents.
    Dependents,
    /// Dependents, of which one waits for its own: there may be a circle.
    WaitingDependents,
}

/// What to do with the object.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It stays as it is.
    Keep,
    /// It stays, without the references to these owners.
    Strip(Vec<String>),
    /// It goes. If asked for, its references stop to block its owners first.
    Delete {
        policy: PropagationPolicy,
        unblock: bool,
    },
}

/// Decides by the rules of kube-controller-manager: one solid owner keeps an object; without one it
/// goes, in the foreground if an owner waits for it and it has dependents of its own, and else the
/// way its finalizers already ask for.
pub(super) fn decide(item: &ObjectMeta, owners: &[(String, Standing)], below: Below) -> Verdict {
    let is = |wanted: Standing| move |(_, standing): &(String, Standing)| *standing == wanted;
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if owners.iter().any(is(Standing::Solid)) {
        // Owners that wait would wait for ever for what somebody else keeps.
        let stripped: Vec<String> = owners
            .iter()
            .filter(|(_, standing)| *standing != Standing::Solid)
            .map(|(uid, _)| uid.clone())
            .collect();
        return if stripped.is_empty() {
            Verdict::Keep
        } else {
            Verdict::Strip(stripped)
        };
    }
    if owners.iter().any(is(Standing::Waiting)) && below != Below::Nothing {
        return Verdict::Delete {
            policy: PropagationPolicy::Foreground,
            unblock: below == Below::WaitingDependents,
        };
    }
    let policy = if has_finalizer(item, ORPHAN) {
        PropagationPolicy::Orphan
    } else if has_finalizer(item, FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Verdict::Delete {
        policy,
        unblock: false,
    }
}

#[cfg(test)]
mod tests;
