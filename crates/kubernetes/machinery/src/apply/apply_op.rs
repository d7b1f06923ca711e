//! Server-side apply.

use std::borrow::Cow;

use serde_json::Value;

use super::conflict::Conflicts;
use super::error::ApplyError;
use super::finish::same_object;
use super::last_applied;
use super::managed::{Entry, Managed, Operation, managed_fields, set_managed_fields, to_second};
use super::prune::{Last, prune};
use super::request::{Request, clone_unmanaged, kind_label, object_label};
use super::tracking::{Changes, HeldType, in_version, reconcile, record_update, strip};
use super::typed::Duplicates;

/// Owns what was there before an object was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies `config` for the manager of the request; `live` is `None` when there is no such object
/// yet. Returns the merged object with its new owners.
///
/// The caller defaults, admits and validates the result and then calls [`super::finish`].
pub fn apply(
    request: &Request<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    let live = match live {
        Some(live) => in_version(request, live, request.api_version).ok_or_else(|| {
            let (label, version) = (object_label(live), request.api_version);
            ApplyError::Version(format!(
                "failed to convert live object ({label}) to proper version: {version} is not served"
            ))
        })?,
        None => {
            Cow::Owned(serde_json::json!({"apiVersion": request.api_version, "kind": request.kind}))
        }
    };
    let managed = Managed::of(&live)?;
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or("");
    if text("apiVersion") != request.api_version || text("kind") != request.kind {
        return Err(ApplyError::InvalidObjectType(kind_label(config)));
    }

    // Without force first, even for `kubectl`: only the conflicts show which fields client-side apply owned. Upstream
    // does the same in `managedfields/internal/lastappliedmanager.go`.
    let outcome = match apply_once(request, &live, config, managed.clone(), force) {
        Err(ApplyError::Conflict(conflicts)) if request.manager == last_applied::MANAGER => {
            match last_applied::remaining(request, &live, conflicts) {
                Some(conflicts) => Err(ApplyError::Conflict(conflicts)),
                None => apply_once(request, &live, config, managed, true),
            }
        }
        outcome => outcome,
    };
    let (mut object, managed) = outcome?;
    if request.manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, config);
    }
    set_managed_fields(&mut object, managed);
    Ok(object)
}

fn apply_once(
    request: &Request<'_>,
    live: &Value,
    config: &Value,
    mut managed: Managed,
    force: bool,
) -> Result<(Value, Managed), ApplyError> {
    // Here and not at creation: an object that is never applied carries no owners it
    // does not need. Upstream's `skipnonapplied.go`.
    if managed.is_empty() {
        record_update(
            request,
            &request.empty_object(),
            live,
            &mut managed,
            BEFORE_FIRST_APPLY,
        )
        .map_err(ApplyError::BeforeFirstApply)?;
    }
    if managed_fields(config).is_some_and(Value::is_array) {
        return Err(ApplyError::ManagedFieldsGiven);
    }
    let held = HeldType::find(request, request.api_version).ok_or_else(|| {
        ApplyError::Version(format!(
            "failed to create typed patch object ({}): no corresponding type for {}",
            object_label(config),
            kind_label(config)
        ))
    })?;
    let typed = held.typed();
    typed
        // The configuration before the live object: a client should read about its own mistake
        // first. Both errors are plain 500s upstream.
        .validate(config, Duplicates::Deny)
        .map_err(|errors| ApplyError::TypedPatch {
            object: object_label(config),
            errors,
        })?;
    typed
        .validate(live, Duplicates::Allow)
        .map_err(|errors| ApplyError::TypedLive {
            object: object_label(live),
            errors,
        })?;

    // Before anything is compared: a CRD may have made a list atomic since these sets were written, and paths into
    // its items would match nothing.
    reconcile(request, &mut managed);
    let merged = typed.merge(live, config);
    let mut wanted = typed.to_set(config);
    // Recursive: `status` as a reset field stands for everything below it.
    wanted.subtract_recursive(request.reset);
    let mine = Entry {
        manager: request.manager_name().to_owned(),
        operation: Operation::Apply,
        api_version: request.api_version.to_owned(),
        subresource: request.subresource.to_owned(),
        time: None,
        set: wanted.clone(),
    };
    // Before pruning: `prune` adds back what any manager owns, and the applier's new set has to be among those.
    let (position, last) = take_place(&mut managed, mine);
    let merged = match &last {
        Some(last) => prune(request, merged, &managed, &wanted, last),
        None => merged,
    };
    settle_others(request, &held, live, &merged, &mut managed, position, force)?;

    // Joining the ownership of a field without changing it leaves the entry without a new time, as kube-apiserver
    // does: `time` says when the object changed, not when a client asked.
    let changed = !same_object(live, &merged, &["managedFields"]);
    if let Some(mine) = managed.entries.get_mut(position) {
        strip(&mut mine.set);
        if changed {
            mine.time = Some(to_second(request.now));
        }
    }
    managed.drop_empty();
    let object = if changed {
        merged
    } else {
        clone_unmanaged(live)
    };
    Ok((object, managed))
}

/// Puts the applier's new entry where its old one was, or at the end; the time stays until it is
/// known whether anything changes.
fn take_place(managed: &mut Managed, mut mine: Entry) -> (usize, Option<Last>) {
    let there = managed
        .entries
        .iter()
        .position(|entry| entry.is_of_same(&mine));
    let Some((position, entry)) =
        there.and_then(|at| managed.entries.get_mut(at).map(|entry| (at, entry)))
    else {
        managed.entries.push(mine);
        return (managed.entries.len() - 1, None);
    };
    mine.time = entry.time;
    let last = std::mem::replace(entry, mine);
    (
        position,
        Some(Last {
            set: last.set,
            api_version: last.api_version,
        }),
    )
}

/// Finds what the apply takes from others, and takes it unless that is a conflict.
fn settle_others(
    request: &Request<'_>,
    held: &HeldType,
    live: &Value,
    merged: &Value,
    managed: &mut Managed,
    mine: usize,
    force: bool,
) -> Result<(), ApplyError> {
    let mut changes = Changes::new(request, held.typed(), live, merged);
    let mut conflicts = Conflicts(Vec::new());
    for (index, entry) in managed.entries.iter_mut().enumerate() {
        if index == mine {
            continue;
        }
        let Some(comparison) = changes
            .at(&entry.api_version)
            .map_err(ApplyError::Version)?
        else {
            // An entry in a version that is not served any more; empty ones are dropped later.
            entry.set = super::set::FieldSet::default();
            continue;
        };
        let mut taken = entry.set.intersection(&comparison.modified);
        taken.union_with(entry.set.intersection(&comparison.added));
        if !taken.is_empty() && !force {
            conflicts.add(entry, &taken);
        }
        entry.set.subtract(&taken);
        // Removed fields have no owner left; that is never a conflict, because pruning kept what others own.
        entry.set.subtract(&comparison.removed);
    }
    if conflicts.0.is_empty() {
        return Ok(());
    }
    conflicts.sort();
    Err(ApplyError::Conflict(conflicts))
}
