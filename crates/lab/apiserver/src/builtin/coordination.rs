//! The `coordination.k8s.io` group (rules: `pkg/apis/coordination/validation`).

use machinery::field::Path;
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Capability::{ConditionalUpdate, CreateOnUpdate};
use crate::builtin::entry::Cell::Text;
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::value::Read;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[LEASE];

const LEASE: Entry = Entry {
    capabilities: &[CreateOnUpdate, ConditionalUpdate],
    validate,
    validate_update: |new, _, _| validate(new),
    columns: &[
        NAME,
        column!("Holder" string Text("spec.holderIdentity") => "Who holds the lease"),
        AGE,
    ],
    ..Entry::new("coordination.k8s.io", "v1", "Lease", "leases")
};

fn validate(lease: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = lease.at("spec");
    let mut errors = Errors::new();
    match spec.int("leaseDurationSeconds") {
        Some(seconds) if seconds <= 0 => {
            let path = path.child("leaseDurationSeconds");
            errors.invalid(&path, seconds, "must be greater than 0");
        }
        _ => {}
    }
    errors += check::counts(&path, spec, "leaseTransitions");
    if let Some(strategy) = spec.maybe_text("strategy") {
        let path = path.child("strategy").child("strategy");
        if strategy.contains('/') {
            errors += check::qualified(&path, strategy);
        } else {
            errors += check::supported(&path, strategy, &["OldestEmulationVersion"]);
        }
    }
    if !spec.text("preferredHolder").is_empty() && spec.text("strategy").is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.forbidden(&path.child("preferredHolder"), detail);
    }
    errors
}
