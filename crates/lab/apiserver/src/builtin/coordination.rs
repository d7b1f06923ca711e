//! The `coordination.k8s.io` group.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::{AGE, Capabilities, Entry, Errors, NAME, column};
use crate::builtin::value::Read;
use crate::builtin::{check, print};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[LEASE];

const LEASE: Entry = Entry {
    capabilities: Capabilities {
        create_on_update: true,
        conditional_update: true,
        ..Capabilities::NONE
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate,
    validate_update: |new, _, _| validate(new),
    columns: &[NAME, column("Holder", "string", "Who holds the lease"), AGE],
    cells: |lease, now| {
        let holder = lease.text("spec.holderIdentity");
        vec![lease.name().into(), holder.into(), print::age(lease, now)]
    },
    ..Entry::new("coordination.k8s.io", "v1", "Lease", "leases", "lease")
};

fn validate(lease: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = lease.at("spec");
    let mut errors = Errors::new();
    match spec.int("leaseDurationSeconds") {
        Some(seconds) if seconds <= 0 => {
            let path = path.child("leaseDurationSeconds");
            errors.push(FieldError::invalid(
                &path,
                seconds,
                "must be greater than 0",
            ));
        }
        _ => {}
    }
    let transitions = spec.int("leaseTransitions");
    errors.extend(check::not_negative(
        &path.child("leaseTransitions"),
        transitions,
    ));
    if let Some(strategy) = spec.maybe_text("strategy") {
        let path = path.child("strategy").child("strategy");
        if strategy.contains('/') {
            errors.extend(check::qualified(&path, strategy));
        } else {
            errors.extend(check::supported(
                &path,
                strategy,
                &["OldestEmulationVersion"],
            ));
        }
    }
    if !spec.text("preferredHolder").is_empty() && spec.text("strategy").is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden(
            &path.child("preferredHolder"),
            detail,
        ));
    }
    errors
}
