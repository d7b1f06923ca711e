//! DELETE of one object and of collections: preconditions, grace, finalizers.

use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use machinery::gvk::GroupResource;
use machinery::json;
use machinery::meta;
use machinery::status::{Details, Status};
use machinery::time::parse_time;
use serde_json::{Value, json};

use super::body::Content;
use super::context::Context;
use super::list::page;
use super::represent::object_response;
use super::selection::Selection;
use super::update::has_own_finalizers;
use crate::admission::{self, Attributes, Operation, Options, Target};
use crate::kind::Grace;
use crate::request::{DeleteOptions, ListOptions, Preconditions, Propagation};
use crate::resource::Resource;
use crate::respond::{self, Body};
use crate::server::Refused;
use crate::store::{Entry, Expect};

/// Finalizer of a foreground deletion.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an orphaning deletion.
const ORPHAN: &str = "orphan";

/// Warning for deleting a job without a propagation policy.
const JOB_ORPHANS: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// The outcome of a delete.
pub(crate) enum Deletion {
    /// The object is gone; this is its last state.
    Done(Value),
    /// The object waits for its grace period or its finalizers.
    Pending(Value),
}

/// DELETE of one object.
pub(crate) async fn delete(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let options = read_options(context, content)?;
    let requested = Requested::For(name);
    match delete_object(context, resource, namespace, name, &options, requested).await? {
        Deletion::Pending(object) => object_response(context, resource, StatusCode::OK, object),
        Deletion::Done(object) if resource.info.delete_returns_object => {
            object_response(context, resource, StatusCode::OK, object)
        }
        Deletion::Done(object) => {
            let status = Status::success(Details {
                name: name.to_owned(),
                group: resource.info.gvk.group.clone(),
                kind: resource.info.plural.clone(),
                uid: meta::uid(&object).to_owned(),
                ..Details::default()
            });
            let form = context.form(context.representation(resource)?);
            Ok(respond::status(&status, form))
        }
    }
}

/// DELETE of a collection: all matching objects, and the list of them.
pub(crate) async fn delete_collection(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let list_options = ListOptions::parse(&context.query, false)?;
    let options = read_options(context, content)?;
    let selection = Selection::parse(&list_options, resource)?;
    let page = page(context, resource, namespace, &list_options, &selection).await?;
    let mut items = Vec::with_capacity(page.entries.len());
    for entry in &page.entries {
        let object = resource.read(entry)?;
        let (namespace, name) = (
            meta::namespace(&object).to_owned(),
            meta::name(&object).to_owned(),
        );
        // A collection request has no name.
        let requested = Requested::For("");
        match delete_object(context, resource, &namespace, &name, &options, requested).await {
            Ok(_) => items.push(object),
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    // Damaged objects are not listed, but deleting a collection removes them as well.
    for entry in &page.damaged {
        match delete_damaged(context, resource, entry, &options).await {
            Ok(_) => {}
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    if resource.custom.is_none() {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if resource.custom.is_some() || !page.continue_token.is_empty() {
        metadata["continue"] = page.continue_token.into();
    }
    let list = json!({
        "kind": resource.info.list_kind,
        "apiVersion": resource.api_version(),
        "metadata": metadata,
        "items": items,
    });
    let form = context.form(context.representation(resource)?);
    Ok(respond::value(StatusCode::OK, &list, form))
}

fn read_options(context: &Context, content: &Content) -> Result<DeleteOptions, Status> {
    if content.bytes.is_empty() {
        return DeleteOptions::parse(&context.query, None);
    }
    let unreadable = |why: String| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let body = content.document(unreadable)?;
    let kind = meta::kind(&body);
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind {} is registered for version {} in scheme \
             \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
            json::go_quote(kind),
            json::go_quote(meta::api_version(&body))
        )));
    }
    DeleteOptions::parse(&context.query, Some(&body))
}

/// Whether a client requested a delete.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Requested<'a> {
    /// Requested under this name, so admission applies.
    For(&'a str),
    /// Implied by another operation.
    Internally,
}

/// Deletes one object as far as its grace period and finalizers allow.
pub(crate) async fn delete_object(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
    requested: Requested<'_>,
) -> Result<Deletion, Status> {
    let state = &context.state;
    let key = resource.key(namespace, name);
    // Unlike updates, without a limit: a delete depends on nothing but the preconditions, which are
    // checked anew, and ends when the object is gone.
    loop {
        let entry = state
            .store
            .get(&key)
            .ok_or_else(|| resource.not_found(name))?;
        if entry.damage().is_some() {
            return delete_damaged(context, resource, &entry, options).await;
        }
        let live = resource.read(&entry)?;
        check_preconditions(resource, name, &live, &options.preconditions)?;
        let step = next_step(resource, &live, options.grace_period_seconds, context.now);
        // A delete that is already pending changes nothing; upstream's `Store.Delete` returns at
        // this point, before validating admission.
        if let (Requested::For(name), false) = (requested, matches!(step, DeletionStep::Wait)) {
            let grace = match step {
                DeletionStep::Grace { seconds, .. } => Some(seconds),
                _ => None,
            };
            let attributes = Attributes {
                context,
                target: Target::object(resource, ""),
                operation: Operation::Delete,
                namespace,
                name,
                options: Options::Delete(options, grace),
                dry_run: options.dry_run,
            };
            admission::admit(&attributes, &mut Value::Null, Some(&live)).await?;
            admission::validate(&attributes, &Value::Null, Some(&live)).await?;
        }
        let mut object = live.clone();
        set_propagation(context, resource, &mut object, options);
        admission::before_delete(resource, &mut object, context.now);
        let has_finalizers =
            !meta::finalizers(&object).is_empty() || has_own_finalizers(resource, &object);
        let expect = Expect::Revision(entry.mod_revision);
        match step {
            DeletionStep::Wait => return Ok(Deletion::Pending(live)),
            DeletionStep::Remove if !has_finalizers => {
                if options.dry_run {
                    return Ok(Deletion::Done(live));
                }
                match state.remove_object(resource, &entry, live.clone()).await {
                    Ok(()) => return Ok(Deletion::Done(live)),
                    Err(Refused::Race(_)) => continue,
                    Err(Refused::Failed(status)) => return Err(*status),
                }
            }
            DeletionStep::Remove => mark_deleting(&mut object, context),
            DeletionStep::Grace { seconds, ends } => {
                if !meta::is_deleting(&live) {
                    bump_generation(&mut object);
                }
                set_deletion(&mut object, ends, seconds);
            }
        }
        admission::on_deleting(resource, &mut object);
        if object == live || options.dry_run {
            return Ok(Deletion::Pending(object));
        }
        let stored = match state
            .store_object(resource, key.clone(), expect, object)
            .await
        {
            Ok(stored) => resource.read(&stored)?,
            Err(Refused::Race(_)) => continue,
            Err(Refused::Failed(status)) => return Err(*status),
        };
        // A grace period of zero is recorded once, for watchers, and is then over.
        if has_finalizers || !matches!(step, DeletionStep::Grace { seconds: 0, .. }) {
            return Ok(Deletion::Pending(stored));
        }
    }
}

/// Deletes an object that cannot be read.
///
/// Only its name is known: there are no finalizers to wait for, no grace period, and no content for
/// admission. kube-apiserver does the same with `ignoreStoreReadErrorWithClusterBreakingPotential`
/// (alpha, off by default); the option is accepted here and not needed, since the damage is in one
/// local file and not in a key that a restarted KMS plugin brings back.
async fn delete_damaged(
    context: &Context,
    resource: &Resource,
    entry: &Entry,
    options: &DeleteOptions,
) -> Result<Deletion, Status> {
    let mut placeholder = resource.placeholder(entry);
    let name = meta::name(&placeholder).to_owned();
    let conflict = |why: &str| {
        let gvk = &resource.info.gvk;
        Status::conflict(&GroupResource::new(&gvk.group, &gvk.kind), &name, why)
    };
    if options.preconditions.uid.is_some() {
        // The garbage collector has a precondition on the UID, so that it deletes no other object
        // of that name.
        return Err(conflict(
            "the UID in the precondition cannot be compared: the stored object is damaged",
        ));
    }
    let revision = entry.mod_revision.to_string();
    if let Some(version) = &options.preconditions.resource_version
        && *version != revision
    {
        return Err(conflict(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({revision}). The object might have been modified"
        )));
    }
    meta::set_resource_version(&mut placeholder, &revision);
    if options.dry_run {
        return Ok(Deletion::Done(placeholder));
    }
    tracing::warn!(
        key = &*entry.key,
        user = context.user.name,
        "deleting a damaged object"
    );
    match context
        .state
        .remove_object(resource, entry, placeholder.clone())
        .await
    {
        Ok(()) => Ok(Deletion::Done(placeholder)),
        // Only another delete writes a damaged object.
        Err(Refused::Race(_)) => Err(resource.not_found(&name)),
        Err(Refused::Failed(status)) => Err(*status),
    }
}

/// The next step of a delete.
#[derive(Debug, Clone, Copy)]
enum DeletionStep {
    /// Only finalizers can block it.
    Remove,
    /// It is being deleted already, and the new grace period is not shorter.
    Wait,
    /// It gets this grace period.
    Grace { seconds: i64, ends: Timestamp },
}

/// `rest.BeforeDelete`.
fn next_step(
    resource: &Resource,
    live: &Value,
    requested: Option<i64>,
    now: Timestamp,
) -> DeletionStep {
    // Negative values mean one second.
    let requested = requested.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Grace::Seconds(seconds) = resource.strategy.grace(live, requested) else {
        return DeletionStep::Remove;
    };
    if !meta::is_deleting(live) {
        return DeletionStep::Grace {
            seconds,
            ends: after(now, seconds),
        };
    }
    let running = match meta::deletion_grace_period_seconds(live) {
        // Also repairs an object that was marked, but whose removal then failed
        // (`apiserver/pkg/registry/rest/delete.go`).
        None | Some(0) => return DeletionStep::Remove,
        Some(running) => running,
    };
    match requested {
        Some(shorter) if shorter < running => {
            let end = meta::deletion_timestamp(live)
                .and_then(|text| parse_time(text).ok())
                .unwrap_or(now);
            let end = after(end, shorter.saturating_sub(running));
            if end >= now {
                DeletionStep::Grace {
                    seconds: shorter,
                    ends: end,
                }
            } else {
                // The grace period is over, but its kubelet has not been notified yet.
                DeletionStep::Grace {
                    seconds: shorter.min(1),
                    ends: now,
                }
            }
        }
        _ => DeletionStep::Wait,
    }
}

/// A time some seconds later, capped at the end of the year 9999, the last time that can be
/// written.
fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// Kinds that orphan their pods by default, for compatibility with the time before cascading
/// deletes.
fn orphans_by_default(resource: &Resource) -> bool {
    let gvk = &resource.info.gvk;
    resource.custom.is_none()
        && matches!(
            (gvk.group.as_str(), gvk.kind.as_str()),
            ("batch", "Job") | ("", "ReplicationController")
        )
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    live: &Value,
    preconditions: &Preconditions,
) -> Result<(), Status> {
    let gvk = &resource.info.gvk;
    let by_kind = GroupResource::new(&gvk.group, &gvk.kind);
    if let Some(uid) = &preconditions.uid
        && uid != meta::uid(live)
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might \
             have been deleted and then recreated",
            meta::uid(live)
        );
        return Err(Status::conflict(&by_kind, name, &why));
    }
    if let Some(version) = &preconditions.resource_version
        && version != meta::resource_version(live)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in \
             record ({}). The object might have been modified",
            meta::resource_version(live)
        );
        return Err(Status::conflict(&by_kind, name, &why));
    }
    Ok(())
}

/// Adds or removes the garbage collector's finalizers
/// (`deletionFinalizersForGarbageCollection`).
fn set_propagation(
    context: &Context,
    resource: &Resource,
    object: &mut Value,
    options: &DeleteOptions,
) {
    let current = meta::finalizers(object);
    let has = |name: &str| current.contains(&name);
    let (orphan, foreground) = match (options.propagation, options.orphan_dependents) {
        (Some(Propagation::Orphan), _) | (None, Some(true)) => (true, false),
        (Some(Propagation::Foreground), _) => (false, true),
        (Some(Propagation::Background), _) | (None, Some(false)) => (false, false),
        (None, None) if !has(ORPHAN) && !has(FOREGROUND) && orphans_by_default(resource) => {
            if resource.info.gvk.kind == "Job" {
                context.warn(JOB_ORPHANS);
            }
            (true, false)
        }
        // A repeated delete without a policy keeps the one that is in force.
        (None, None) => (has(ORPHAN), has(FOREGROUND)),
    };
    if orphan == has(ORPHAN) && foreground == has(FOREGROUND) {
        return;
    }
    let mut finalizers: Vec<String> = current
        .iter()
        .filter(|name| !matches!(**name, ORPHAN | FOREGROUND))
        .map(|name| (*name).to_owned())
        .collect();
    if orphan {
        finalizers.push(ORPHAN.into());
    }
    if foreground {
        finalizers.push(FOREGROUND.into());
    }
    meta::set_finalizers(object, finalizers);
}

fn set_deletion(object: &mut Value, when: Timestamp, seconds: i64) {
    meta::set_deletion_timestamp(object, when, seconds);
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set_generation(object, generation.saturating_add(1));
    }
}

/// `markAsDeleting`.
fn mark_deleting(object: &mut Value, context: &Context) {
    if !meta::is_deleting(object) {
        bump_generation(object);
        set_deletion(object, context.now, 0);
    } else if meta::deletion_grace_period_seconds(object) != Some(0) {
        meta::set(object, "deletionGracePeriodSeconds", 0);
    }
}
