//! The diffs of items after their plan: what applying each of them now would change.

use api::advisor::{DriftClass, Item, ItemState, Operation};

use super::Decider;
use crate::diff;
use crate::plan::{self, Draft};

/// Sets the diffs of completed items to no change: their targets were just written and verified.
pub(super) fn settle(decider: &mut Decider<'_>) {
    for item in &mut decider.status.items {
        if item.state == ItemState::Completed {
            item.diff = Some(no_change(item));
        }
    }
}

/// Compares each item with its live target. `draft` has the items of a plan made now, which is what `medley diff`
/// shows; without one, the items themselves are compared.
pub(super) fn refresh(decider: &mut Decider<'_>, draft: Option<&Draft>) {
    let snapshot = decider.facts.snapshot;
    for item in &mut decider.status.items {
        let settled = item.operation != Operation::Apply && item.state == ItemState::Completed;
        if settled {
            item.diff = Some(no_change(item));
            continue;
        }
        let kind = snapshot.kind_of(&item.target_ref);
        // Without its CRD nothing is known about a target, not even that it is gone.
        if kind.is_none() {
            continue;
        }
        let drafted = draft.and_then(|draft| draft.items.iter().find(|new| new.name == item.name));
        let wanted = drafted.unwrap_or(item);
        let live = snapshot.target(&wanted.target_ref).map(|live| &**live);
        if let Some(now) = plan::diff_now(wanted, live, &item.deviations, kind) {
            item.diff = Some(now);
        }
    }
    let diffs = decider.status.items.iter_mut();
    diff::fit(diffs.filter_map(|item| item.diff.as_mut()));
}

fn no_change(item: &Item) -> String {
    if item.operation == Operation::Delete {
        return diff::absent();
    }
    diff::unchanged(&item.target_ref.name, &item.target_ref.kind)
}

/// Whether drift was caused by another manager, and not by a schema that no longer has the field.
pub(super) fn is_edited(decider: &Decider<'_>) -> bool {
    let mut drift = decider.status.drift.iter();
    drift.any(|drift| drift.class == DriftClass::ExternalEdit)
}
