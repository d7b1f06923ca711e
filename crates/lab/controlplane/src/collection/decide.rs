//! The verdict on an object, from the state of its owners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PropagationPolicy;

use super::node::{FOREGROUND, ORPHAN, has_finalizer};

/// State of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists.
    Solid,
    /// It does not exist.
    Dangling,
    /// It waits for the deletion of its dependents.
    Waiting,
}

/// Dependents of the object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependentState {
    /// There are none.
    Nothing,
    /// There are some.
    Dependents,
    /// At least one of them waits for its own dependents: there may be a cycle.
    WaitingDependents,
}

/// The verdict on an object.
#[derive(Debug, PartialEq)]
pub(super) enum CollectionVerdict {
    /// Leave it unchanged.
    Keep,
    /// Remove the references to these owners.
    Strip(Vec<String>),
    /// Delete it, with `blockOwnerDeletion` cleared first if requested.
    Delete {
        policy: PropagationPolicy,
        unblock: bool,
    },
}

/// Decides by the rules of kube-controller-manager: one existing owner keeps an object; without one
/// it is deleted, in the foreground if an owner waits for it and it has dependents of its own, else
/// by the policy that its finalizers imply.
pub(super) fn decide(
    item: &ObjectMeta,
    owners: &[(String, OwnerState)],
    below: DependentState,
) -> CollectionVerdict {
    let is = |wanted: OwnerState| move |(_, standing): &(String, OwnerState)| *standing == wanted;
    if owners.is_empty() {
        return CollectionVerdict::Keep;
    }
    if owners.iter().any(is(OwnerState::Solid)) {
        // An owner in foreground deletion would wait forever for a dependent that another owner
        // keeps.
        let stripped: Vec<String> = owners
            .iter()
            .filter(|(_, standing)| *standing != OwnerState::Solid)
            .map(|(uid, _)| uid.clone())
            .collect();
        return if stripped.is_empty() {
            CollectionVerdict::Keep
        } else {
            CollectionVerdict::Strip(stripped)
        };
    }
    if owners.iter().any(is(OwnerState::Waiting)) && below != DependentState::Nothing {
        return CollectionVerdict::Delete {
            policy: PropagationPolicy::Foreground,
            unblock: below == DependentState::WaitingDependents,
        };
    }
    let policy = if has_finalizer(item, ORPHAN) {
        PropagationPolicy::Orphan
    } else if has_finalizer(item, FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    CollectionVerdict::Delete {
        policy,
        unblock: false,
    }
}

#[cfg(test)]
mod tests;
