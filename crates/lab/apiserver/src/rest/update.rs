//! PUT, and the read-modify-write loop of every change to an existing object.

use std::borrow::Cow;
use std::sync::Arc;

use http::{Response, StatusCode};
use machinery::apply::finish;
use machinery::field::{FieldError, Path};
use machinery::gvk::GroupVersionKind;
use machinery::json::go_quote;
use machinery::meta;
use machinery::names;
use machinery::status::Status;
use serde_json::Value;

use super::body::{Content, decode_object};
use super::context::Context;
use super::create::{
    create_object, dedup_owners, match_namespace, type_errors, unqualified_finalizers,
    warn_of_finalizers, wipe_system_fields,
};
use super::ownership::Ownership;
use super::represent::{object_response, stored_response};
use crate::admission::{self, Attributes, Operation, Options, Target};
use crate::allocate::Reservation;
use crate::auth;
use crate::kind::Part;
use crate::request::{WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::Body;
use crate::server::Refused;
use crate::store::{Entry, Expect};

/// Number of attempts for a change that depends only on the object, when it loses a race.
// kube-apiserver retries without a limit (`GuaranteedUpdate` in
// `apiserver/pkg/storage/etcd3/store.go`). Here an attempt repeats admission as well, with its
// calls of webhooks, so that a hot object must not keep a request busy until its deadline; the
// client gets the 409 instead.
const MAX_ATTEMPTS: usize = 5;

/// Kinds that upstream validates like new ones on every update, metadata included.
const REVALIDATED: [&str; 3] = ["ConfigMap", "Secret", "Service"];

/// A kind that represents part of an object, such as a scale: clients send it and admission sees
/// it.
pub(crate) trait Lens: Sync {
    /// The kind.
    fn kind(&self) -> GroupVersionKind;
    /// Its view of an object.
    fn show(&self, object: &Value) -> Value;
    /// Merges a changed view into the object.
    fn put(&self, live: &Value, shown: &Value) -> Result<Value, Status>;
}

/// The result of a change to the current object.
pub(crate) struct Changed {
    /// The new object, decoded, defaulted and with ownership recorded; or the lens's view of it.
    pub(crate) object: Value,
}

/// Computes a new object from the current one; runs again when the write loses a race.
pub(crate) type Change<'a> = dyn Fn(&Value) -> Result<Changed, Status> + Send + Sync + 'a;

/// A change to one object.
pub(crate) struct UpdateJob<'a> {
    /// Its resource.
    pub(crate) resource: &'a Resource,
    /// Its namespace.
    pub(crate) namespace: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    /// The changed part.
    pub(crate) part: Part<'a>,
    /// Whether it is a dry run.
    pub(crate) dry_run: bool,
    /// Whether a UID in the new object is a precondition rather than a value.
    pub(crate) uid_is_precondition: bool,
    /// Whether a client requested it, so admission applies; otherwise it is part of another
    /// operation.
    pub(crate) requested: bool,
    /// The view to change, if it is not the object itself.
    pub(crate) lens: Option<&'a dyn Lens>,
}

impl<'a> UpdateJob<'a> {
    /// A change to an object or a part of it. A UID in the new object is a plain value.
    pub(crate) fn new(
        resource: &'a Resource,
        namespace: &'a str,
        name: &'a str,
        part: Part<'a>,
        dry_run: bool,
    ) -> Self {
        Self {
            resource,
            namespace,
            name,
            part,
            dry_run,
            uid_is_precondition: false,
            requested: false,
            lens: None,
        }
    }

    /// The same, requested by a client.
    pub(crate) fn requested(self) -> Self {
        Self {
            requested: true,
            ..self
        }
    }

    fn attributes<'c>(&'c self, context: &'c Context) -> Attributes<'c> {
        let subresource = match self.part {
            Part::Main => "",
            Part::Status => "status",
            Part::Other(name) => name,
        };
        Attributes {
            context,
            target: match self.lens {
                Some(lens) => Target::below(self.resource, subresource, lens.kind()),
                None => Target::object(self.resource, subresource),
            },
            operation: Operation::Update,
            namespace: self.namespace,
            name: self.name,
            options: Options::Write("UpdateOptions"),
            dry_run: self.dry_run,
        }
    }

    /// The object as clients see it.
    fn shown<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        match self.lens {
            Some(lens) => Cow::Owned(lens.show(object)),
            None => Cow::Borrowed(object),
        }
    }
}

/// The outcome of a change.
pub(crate) enum Updated {
    /// The object was changed.
    Stored(Arc<Entry>),
    /// The object is unchanged, or this is the result of a dry run.
    Live(Value),
    /// Its last finalizer was removed, and so was the object.
    Deleted(Value),
}

impl Updated {
    /// The object of the response.
    pub(crate) fn into_object(self, resource: &Resource) -> Result<Value, Status> {
        match self {
            Self::Stored(entry) => resource.read(&entry),
            Self::Live(object) | Self::Deleted(object) => Ok(object),
        }
    }

    /// The response. Stored objects are encoded already and mostly sent unchanged.
    pub(crate) fn response(
        self,
        context: &Context,
        resource: &Resource,
    ) -> Result<Response<Body>, Status> {
        match self {
            Self::Stored(entry) => stored_response(context, resource, &entry),
            Self::Live(object) | Self::Deleted(object) => {
                object_response(context, resource, StatusCode::OK, object)
            }
        }
    }
}

/// PUT of an object or of its status.
pub(crate) async fn put(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
    part: Part<'_>,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&context.query, WriteKind::Update)?;
    let mut given = decode_object(context, resource, content, options.field_validation)?;
    check_name(name, &given)?;
    match_namespace(resource, namespace, &mut given)?;
    resource.strategy.default(&mut given);
    let ownership = Ownership::new(context, resource, &options.field_manager, part);
    let exists = context
        .state
        .store
        .get(&resource.key(namespace, name))
        .is_some();
    if !exists && resource.info.create_on_update && part == Part::Main {
        context.authorize_creation()?;
        let mut object = given.clone();
        wipe_system_fields(&mut object);
        meta::remove(&mut object, "resourceVersion");
        ownership.update(context, resource, None, &mut object);
        let created = create_object(context, resource, namespace, object, options.dry_run).await?;
        return object_response(context, resource, StatusCode::CREATED, created);
    }
    let job = UpdateJob {
        uid_is_precondition: true,
        ..UpdateJob::new(resource, namespace, name, part, options.dry_run).requested()
    };
    let change = |live: &Value| {
        let mut object = given.clone();
        ownership.update(context, resource, Some(live), &mut object);
        Ok(Changed { object })
    };
    let updated = update_object(context, &job, &change).await?;
    updated.response(context, resource)
}

/// The name in the body has to be the one in the URL.
pub(crate) fn check_name(name: &str, object: &Value) -> Result<(), Status> {
    let given = meta::name(object);
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Reads, changes and writes until the write succeeds.
pub(crate) async fn update_object(
    context: &Context,
    job: &UpdateJob<'_>,
    change: &Change<'_>,
) -> Result<Updated, Status> {
    let key = job.resource.key(job.namespace, job.name);
    for attempt in 1.. {
        let entry = context
            .state
            .store
            .get(&key)
            .ok_or_else(|| job.resource.not_found(job.name))?;
        let live = job.resource.read(&entry)?;
        // Everything is repeated after a lost race, admission included: webhooks decided about an
        // object that no longer exists in that form.
        let changed = admitted(context, job, &key, &live, change(&live)?.object).await?;
        // A patch carries the live version, because it was computed from it, and is as repeatable
        // as a request without one. A stale version of the client is not: it names what the client
        // has read.
        let unconditional = meta::resource_version(&changed).is_empty()
            || meta::resource_version(&changed) == meta::resource_version(&live);
        // `_reserved` lives until the end of the attempt: dropped earlier, a concurrent Service
        // could be given the same address.
        let (new, _reserved) = checked(context, job, &live, changed)?;
        if job.requested {
            let old = job.shown(&live);
            admission::validate(&job.attributes(context), &job.shown(&new), Some(&old)).await?;
        }
        match commit(context, job, &entry, &live, new).await {
            Ok(updated) => return Ok(updated),
            Err(Refused::Race(_)) if unconditional && attempt < MAX_ATTEMPTS => {}
            Err(Refused::Race(_)) => {
                return Err(Status::modified(&job.resource.group_resource(), job.name));
            }
            Err(Refused::Failed(status)) => return Err(*status),
        }
    }
    Err(Status::modified(&job.resource.group_resource(), job.name))
}

/// Runs mutating admission. It comes before versions are compared, as upstream.
async fn admitted(
    context: &Context,
    job: &UpdateJob<'_>,
    key: &str,
    live: &Value,
    mut changed: Value,
) -> Result<Value, Status> {
    check_uid(job, key, live, &changed)?;
    if job.requested {
        if job.lens.is_none() {
            dedup_owners(context, &mut changed, false);
        }
        let old = job.shown(live);
        admission::admit(&job.attributes(context), &mut changed, Some(&old)).await?;
    }
    if job.part == Part::Main && job.lens.is_none() {
        auth::confirm_no_escalation(context, job.resource, job.namespace, Some(live), &changed)?;
    }
    match job.lens {
        Some(lens) => lens.put(live, &changed),
        None => Ok(changed),
    }
}

/// All steps between admission and the store (`rest.BeforeUpdate`).
fn checked<'a>(
    context: &'a Context,
    job: &UpdateJob<'_>,
    live: &Value,
    mut new: Value,
) -> Result<(Value, Option<Reservation<'a>>), Status> {
    let resource = job.resource;
    check_version(job, live, &new)?;
    // Compared, and from here on equal: the no-op check in `commit` must not see the version as a
    // change.
    meta::set_resource_version(&mut new, meta::resource_version(live));
    keep_system_fields(&mut new, live);
    dedup_owners(context, &mut new, job.requested);
    resource
        .strategy
        .prepare_update(&mut new, live, job.part, context.write_context());
    let reserved = if job.part == Part::Main {
        let state = &context.state;
        state.allocate(resource, &mut new, Some(live), job.dry_run)?
    } else {
        None
    };
    // Binding a pod does not change its desired state.
    let counts = job.part != Part::Other("binding");
    let strategy = &resource.strategy;
    if resource.info.has_generation && counts && strategy.new_generation(&new, live, job.part) {
        let next = meta::generation(live).saturating_add(1);
        meta::set_generation(&mut new, next);
    }
    type_errors(resource, &new)?;
    let path = Path::new("metadata");
    let metadata = (&new["metadata"], &live["metadata"]);
    let mut errors = meta::validate_object_meta(
        metadata.0,
        resource.info.namespaced,
        names::name_is_path_segment,
        &path,
    );
    // Once for the common rules and once for the kind: upstream runs both, and both results are
    // among the causes.
    for _ in 0..2 {
        errors.extend(meta::validate_object_meta_update(
            metadata.0, metadata.1, &path,
        ));
    }
    errors.extend(unqualified_finalizers(resource, &new));
    if resource.custom.is_none() && REVALIDATED.contains(&resource.info.gvk.kind.as_str()) {
        let by_kind = |name: &str, prefix| resource.strategy.validate_name(name, prefix);
        let namespaced = resource.info.namespaced;
        errors.extend(meta::validate_object_meta(
            metadata.0, namespaced, by_kind, &path,
        ));
    }
    let findings = resource.strategy.validate_update(&new, live, job.part);
    errors.extend(findings.errors);
    if !errors.is_empty() {
        return Err(resource.invalid(job.name, &errors));
    }
    context.warn_all(findings.warnings);
    warn_of_finalizers(context, resource, &new, Some(live));
    Ok((new, reserved))
}

/// resourceVersion of the new object against the live one.
fn check_version(job: &UpdateJob<'_>, live: &Value, new: &Value) -> Result<(), Status> {
    let resource = job.resource;
    let given = meta::resource_version(new);
    if given.is_empty() || given == "0" {
        if !resource.info.unconditional_update && given != meta::resource_version(live) {
            let error = FieldError::invalid(
                &Path::new("metadata").child("resourceVersion"),
                0,
                "must be specified for an update",
            );
            let group = &resource.info.gvk.group;
            return Err(Status::invalid_as(
                group,
                &resource.info.plural,
                job.name,
                &[error],
            ));
        }
    } else if let Err(error) = given.parse::<u64>() {
        let why = parse_uint_error(&error);
        return Err(Status::plain_500(format!(
            "strconv.ParseUint: parsing {}: {why}",
            go_quote(given)
        )));
    } else if given != meta::resource_version(live) {
        return Err(Status::modified(&resource.group_resource(), job.name));
    }
    Ok(())
}

/// uid of the new object against the live one.
fn check_uid(job: &UpdateJob<'_>, key: &str, live: &Value, new: &Value) -> Result<(), Status> {
    let resource = job.resource;
    let (uid, live_uid) = (meta::uid(new), meta::uid(live));
    if job.uid_is_precondition && !uid.is_empty() && uid != live_uid {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: \
             {live_uid}"
        );
        return Err(Status::conflict(&resource.group_resource(), job.name, &why));
    }
    Ok(())
}

/// Restores the fields that clients must not change, silently.
fn keep_system_fields(new: &mut Value, live: &Value) {
    let old = live.get("metadata").and_then(Value::as_object);
    let Some(metadata) = meta::metadata_mut(new) else {
        return;
    };
    // Not stored.
    metadata.remove("selfLink");
    let mut restore = |field: &str, only_if_absent: bool| match old.and_then(|old| old.get(field)) {
        Some(_) if only_if_absent && metadata.contains_key(field) => {}
        Some(value) => {
            metadata.insert(field.into(), value.clone());
        }
        None if only_if_absent => {}
        None => {
            metadata.remove(field);
        }
    };
    // The order and the two modes follow `rest.BeforeUpdate`
    // (`apiserver/pkg/registry/rest/update.go`): these fields are restored silently, a UID only if
    // it is absent, so that a wrong one is still rejected by validation.
    restore("creationTimestamp", false);
    restore("generation", false);
    restore("uid", true);
    restore("deletionTimestamp", true);
    restore("deletionGracePeriodSeconds", true);
    if old.is_some_and(|old| old.contains_key("deletionTimestamp")) {
        restore("deletionTimestamp", false);
    }
}

/// Writes the outcome: no change, the new object, or its removal.
async fn commit(
    context: &Context,
    job: &UpdateJob<'_>,
    entry: &Arc<Entry>,
    live: &Value,
    mut new: Value,
) -> Result<Updated, Refused> {
    let state = &context.state;
    let ends = meta::is_deleting(&new)
        && meta::finalizers(&new).is_empty()
        && meta::deletion_grace_period_seconds(&new).unwrap_or_default() == 0
        && !has_own_finalizers(job.resource, &new);
    if ends {
        if job.dry_run {
            return Ok(Updated::Deleted(new));
        }
        // Watchers get its last state; the client that removed it gets the requested one.
        state
            .remove_object(job.resource, entry, live.clone())
            .await?;
        return Ok(Updated::Deleted(new));
    }
    // `settle` drops what is not stored; a dry run returns the object as admission left it.
    if !job.dry_run {
        job.resource.strategy.settle(&mut new);
    }
    // A write without a change is not stored: no new version, no event. Controllers that apply in a
    // loop would otherwise wake themselves.
    if finish(live, &mut new) {
        return Ok(Updated::Live(new));
    }
    if job.dry_run {
        return Ok(Updated::Live(new));
    }
    let expect = Expect::Revision(entry.mod_revision);
    let stored = state
        .store_object(job.resource, entry.key.to_string(), expect, new)
        .await?;
    Ok(Updated::Stored(stored))
}

/// Namespaces have finalizers in their spec besides those in metadata.
pub(super) fn has_own_finalizers(resource: &Resource, object: &Value) -> bool {
    resource.info.gvk.group.is_empty()
        && resource.info.gvk.kind == "Namespace"
        && object
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|f| !f.is_empty())
}

fn parse_uint_error(error: &std::num::ParseIntError) -> &'static str {
    match error.kind() {
        std::num::IntErrorKind::PosOverflow => "value out of range",
        _ => "invalid syntax",
    }
}
