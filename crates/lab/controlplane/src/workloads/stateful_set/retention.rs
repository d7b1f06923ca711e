//! Owners of a set's claims, which determine their deletion:
//! `persistentVolumeClaimRetentionPolicy`.
//!
//! A claim to be deleted with its set has the set as controller; one to be deleted with its surplus
//! pod has that pod. The garbage collector does the rest.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::super::pods::controller_reference;

/// The owner a claim should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimOwner {
    Nobody,
    Set,
    Pod,
}

/// The retention policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    delete_with_set: bool,
    delete_when_scaled: bool,
}

impl Policy {
    fn of(set: &StatefulSet) -> Self {
        let policy = set
            .spec
            .as_ref()
            .and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
        let delete = |when: Option<&String>| when.is_some_and(|when| when == "Delete");
        Self {
            delete_with_set: delete(policy.and_then(|policy| policy.when_deleted.as_ref())),
            delete_when_scaled: delete(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }

    fn retains_all(self) -> bool {
        !self.delete_with_set && !self.delete_when_scaled
    }

    fn keeper(self, needed: bool) -> ClaimOwner {
        match (self.delete_when_scaled, needed, self.delete_with_set) {
            (true, false, _) => ClaimOwner::Pod,
            (_, _, true) => ClaimOwner::Set,
            _ => ClaimOwner::Nobody,
        }
    }
}

/// The desired owners of a claim, or `None` if it has them. `needed` is whether the pod is within
/// the desired replicas.
pub(super) fn corrected(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    pod: &Pod,
    needed: bool,
) -> Option<Vec<OwnerReference>> {
    let owners = claim
        .metadata
        .owner_references
        .as_deref()
        .unwrap_or_default();
    // A claim of an earlier set or pod of that name is about to be garbage collected: it is left
    // alone.
    if names_another(owners, "StatefulSet", &set.metadata)
        || names_another(owners, "Pod", &pod.metadata)
    {
        return None;
    }
    let names = |owner: &OwnerReference, meta: &ObjectMeta| Some(&owner.uid) == meta.uid.as_ref();
    let ours = |owner: &&OwnerReference| names(owner, &set.metadata) || names(owner, &pod.metadata);
    let foreign = has_foreign_controller(claim, set, pod);
    let policy = Policy::of(set);
    let keeper = policy.keeper(needed);
    let right = if foreign {
        !owners.iter().any(|owner| ours(&owner))
    } else {
        let has = |meta: &ObjectMeta| owners.iter().any(|owner| names(owner, meta));
        owners
            .iter()
            .filter(ours)
            .all(|owner| owner.controller == Some(true))
            && has(&set.metadata) == (keeper == ClaimOwner::Set)
            && has(&pod.metadata) == (keeper == ClaimOwner::Pod)
    };
    if right {
        return None;
    }
    let others = owners.iter().filter(|owner| !ours(owner)).cloned();
    let keeper = match keeper {
        ClaimOwner::Set if !foreign => Some(controller_reference(set)),
        ClaimOwner::Pod if !foreign => Some(controller_reference(pod)),
        _ => None,
    };
    Some(others.chain(keeper).collect())
}

/// Whether another controller owns a claim, which exempts it from the policy.
fn has_foreign_controller(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    let ours = |owner: &OwnerReference| {
        is_named(owner, "StatefulSet", &set.metadata) || is_named(owner, "Pod", &pod.metadata)
    };
    let mut owners = claim.metadata.owner_references.iter().flatten();
    !Policy::of(set).retains_all()
        && owners.any(|owner| owner.controller == Some(true) && !ours(owner))
}

/// Whether a claim belongs to an earlier pod of that name and is about to be deleted with it: a new
/// pod has to wait for a new claim.
pub(super) fn is_stale(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    let owners = claim
        .metadata
        .owner_references
        .as_deref()
        .unwrap_or_default();
    Policy::of(set).delete_when_scaled && names_another(owners, "Pod", &pod.metadata)
}

fn names_another(owners: &[OwnerReference], kind: &str, meta: &ObjectMeta) -> bool {
    let mut named = owners.iter().filter(|owner| is_named(owner, kind, meta));
    named.any(|owner| Some(&owner.uid) != meta.uid.as_ref())
}

fn is_named(owner: &OwnerReference, kind: &str, meta: &ObjectMeta) -> bool {
    owner.kind == kind && Some(&owner.name) == meta.name.as_ref()
}
