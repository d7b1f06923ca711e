//! POST.

use http::{Response, StatusCode};
use machinery::field::{FieldError, Path};
use machinery::gvk::split_api_version;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;
use uuid::Uuid;

use super::body::{Content, decode_object};
use super::context::Context;
use super::ownership::Ownership;
use super::represent::object_response;
use crate::admission::{self, Attributes, Operation, Options, Target};
use crate::allocate::Reservation;
use crate::auth;
use crate::kind::Part;
use crate::request::{WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::Body;
use crate::server::Refused;
use crate::store::Expect;

/// Number of attempts to generate a name that is not taken.
// `maxNameGenerationCreateAttempts` in `apiserver/pkg/registry/generic/registry/store.go`.
const NAME_TRIES: usize = 8;

/// POST to a collection.
pub(crate) async fn create(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&context.query, WriteKind::Create)?;
    let mut object = decode_object(context, resource, content, options.field_validation)?;
    match_namespace(resource, namespace, &mut object)?;
    // Before ownership is recorded: fields that the server sets must not be owned by the client
    // that sent them.
    wipe_system_fields(&mut object);
    resource.strategy.default(&mut object);
    Ownership::new(context, resource, &options.field_manager, Part::Main).update(
        context,
        resource,
        None,
        &mut object,
    );
    let created = create_object(context, resource, namespace, object, options.dry_run).await?;
    object_response(context, resource, StatusCode::CREATED, created)
}

/// Sets the fields that the server owns, after admission.
fn fill_system_fields(object: &mut Value, context: &Context) {
    wipe_system_fields(object);
    meta::set_uid(object, &Uuid::new_v4().to_string());
    meta::set_creation_timestamp(object, context.now);
}

/// Clears the fields that clients must not set.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        meta::remove(object, field);
    }
}

/// Sets the namespace of the request in the object, or rejects another one.
pub(crate) fn match_namespace(
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let given = meta::namespace(object);
    if !resource.info.namespaced {
        if !given.is_empty() && resource.custom.is_some() {
            meta::remove(object, "namespace");
        }
        return Ok(());
    }
    if given.is_empty() {
        meta::set_namespace(object, namespace);
        return Ok(());
    }
    if given == namespace {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Stores a decoded object with managed fields.
pub(crate) async fn create_object(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    mut object: Value,
    dry_run: bool,
) -> Result<Value, Status> {
    let given = meta::resource_version(&object);
    if !given.is_empty() && given != "0" {
        return Err(Status::plain_500(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    meta::remove(&mut object, "resourceVersion");
    if let Some(custom) = &resource.custom
        && custom.terminating
    {
        return Err(Status::forbidden(
            Some(&resource.group_resource()),
            &Resource::display_name(&object),
            "create not allowed while custom resource definition is terminating",
        ));
    }
    // Once before and once after admission: a webhook may add the duplicate, and the warning says
    // which of the two it was.
    dedup_owners(context, &mut object, false);
    let asked_name = meta::name(&object).to_owned();
    let attributes = Attributes {
        context,
        target: Target::object(resource, ""),
        operation: Operation::Create,
        namespace,
        name: &asked_name,
        options: Options::Write("CreateOptions"),
        dry_run,
    };
    admission::admit(&attributes, &mut object, None).await?;
    // After mutating admission: a webhook could add a rule to a role, and the user has to hold that
    // rule too.
    auth::confirm_no_escalation(context, resource, namespace, None, &object)?;
    dedup_owners(context, &mut object, true);
    fill_system_fields(&mut object, context);
    // Held until the object is stored, over the calls of validating webhooks; see `allocate`.
    let _reserved = prepare(context, resource, &mut object, dry_run)?;
    let generated = meta::name(&object).is_empty();
    let base = meta::generate_name_base(&object).to_owned();
    for attempt in 1.. {
        if generated && !base.is_empty() {
            let name = meta::generate_name(&base, || context.state.random());
            meta::set_name(&mut object, &name);
            // Some defaults depend on the name.
            resource.strategy.default(&mut object);
        }
        // Inside the loop, because a generated name is validated like any other, and validating
        // webhooks see it.
        validate(context, resource, &object)?;
        let name = meta::name(&object).to_owned();
        let named = Attributes {
            name: &name,
            ..attributes.clone()
        };
        admission::validate(&named, &object, None).await?;
        let key = resource.key(namespace, &name);
        let taken = if dry_run {
            match context.state.store.get(&key) {
                None => return Ok(object),
                current => current,
            }
        } else {
            // The original stays for the next attempt with another name.
            let mut content = object.clone();
            resource.strategy.settle(&mut content);
            match context
                .state
                .store_object(resource, key, Expect::Absent, content)
                .await
            {
                Ok(stored) => return resource.read(&stored),
                Err(Refused::Race(current)) => current,
                Err(Refused::Failed(status)) => return Err(*status),
            }
        };
        if generated {
            if attempt < NAME_TRIES {
                continue;
            }
            return Err(Status::generate_name_conflict(
                &resource.group_resource(),
                &name,
            ));
        }
        let mut status = Status::already_exists(&resource.group_resource(), &name);
        let deleting = taken
            .and_then(|entry| entry.object().ok())
            .is_some_and(|existing| meta::is_deleting(&existing));
        if deleting {
            status.message = format!("object is being deleted: {}", status.message);
        }
        return Err(status);
    }
    Err(Status::internal("no name could be generated"))
}

/// `rest.BeforeCreate` up to validation.
fn prepare<'a>(
    context: &'a Context,
    resource: &Resource,
    object: &mut Value,
    dry_run: bool,
) -> Result<Option<Reservation<'a>>, Status> {
    if resource.info.has_generation {
        meta::set_generation(object, 1);
    }
    resource
        .strategy
        .prepare_create(object, context.write_context());
    context.state.allocate(resource, object, None, dry_run)
}

fn validate(context: &Context, resource: &Resource, object: &Value) -> Result<(), Status> {
    type_errors(resource, object)?;
    let mut errors = meta::validate_object_meta(
        &object["metadata"],
        resource.info.namespaced,
        |name, prefix| resource.strategy.validate_name(name, prefix),
        &Path::new("metadata"),
    );
    errors.extend(unqualified_finalizers(resource, object));
    let findings = resource.strategy.validate_create(object);
    errors.extend(findings.errors);
    if !errors.is_empty() {
        return Err(resource.invalid(meta::name(object), &errors));
    }
    context.warn_all(findings.warnings);
    warn_of_finalizers(context, resource, object, None);
    Ok(())
}

/// Removes duplicate owner references, with a warning.
pub(super) fn dedup_owners(context: &Context, object: &mut Value, after_admission: bool) {
    let dropped = meta::dedup_owner_references(object);
    if !dropped.is_empty() {
        context.warn(meta::duplicate_owners_warning(&dropped, after_admission));
    }
}

/// Warns about unqualified finalizers of custom resources; existing ones are ignored.
pub(super) fn warn_of_finalizers(
    context: &Context,
    resource: &Resource,
    object: &Value,
    live: Option<&Value>,
) {
    if resource.custom.is_none() {
        return;
    }
    let path = Path::new("metadata").child("finalizers");
    let warnings = |object: &Value| meta::finalizer_warnings(&object["metadata"], &path);
    let known = live.map(warnings).unwrap_or_default();
    context.warn_all(
        warnings(object)
            .into_iter()
            .filter(|warning| !known.contains(warning)),
    );
}

/// Finalizers of built-in kinds have to be qualified (`validateKubeFinalizerName`).
pub(super) fn unqualified_finalizers(resource: &Resource, object: &Value) -> Vec<FieldError> {
    // CRDs are validated by upstream's extension server, which has other rules.
    if resource.custom.is_some() || resource.info.gvk.group == "apiextensions.k8s.io" {
        return Vec::new();
    }
    let path = Path::new("metadata").child("finalizers");
    let standard = ["kubernetes", "orphan", "foregroundDeletion"];
    meta::finalizers(object)
        .into_iter()
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !standard.contains(name))
        .map(|(index, name)| {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(&path.index(index), name, why)
        })
        .collect()
}

/// A custom resource of another kind passes decoding, and is rejected here.
pub(super) fn type_errors(resource: &Resource, object: &Value) -> Result<(), Status> {
    let expected = &resource.info.gvk.kind;
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if resource.custom.is_none() || kind == expected {
        return Ok(());
    }
    let error = FieldError::invalid(&Path::new("kind"), kind, format!("must be {expected}"));
    Err(Status::invalid_as(
        &resource.info.gvk.group,
        kind,
        meta::name(object),
        &[error],
    ))
}

/// Creates an object of the server's own, as if it had been posted.
pub(crate) async fn create_internal(context: &Context, object: Value) -> Result<Value, Status> {
    let api_version = meta::api_version(&object);
    let snapshot = context.state.registry.snapshot();
    let resource = split_api_version(api_version)
        .and_then(|(group, version)| snapshot.find_kind(group, version, meta::kind(&object)))
        .ok_or_else(Status::unknown_resource)?;
    let namespace = meta::namespace(&object).to_owned();
    let decoded = resource
        .strategy
        .decode(object)
        .map_err(Status::bad_request)?;
    let mut object = decoded.object;
    wipe_system_fields(&mut object);
    resource.strategy.default(&mut object);
    Ownership::new(context, resource, "", Part::Main).update(context, resource, None, &mut object);
    create_object(context, resource, &namespace, object, false).await
}
