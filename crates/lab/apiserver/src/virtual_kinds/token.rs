//! Tokens for service accounts (`serviceaccounts/<name>/token`).

use machinery::field::{FieldError, Path};
use machinery::gvk::GroupResource;
use machinery::json::go_quote;
use machinery::meta;
use machinery::status::Status;
use machinery::time::format_time;
use serde_json::{Value, json};
use uuid::Uuid;

use super::own;
use crate::auth::TokenClaims;
use crate::builtin::value::Read as _;
use crate::resource::Resource;
use crate::rest::Context;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// Minimum lifetime of a token in seconds.
const MIN_SECONDS: i64 = 600;
/// Maximum lifetime in seconds.
// Both limits from `pkg/apis/authentication/validation/validation.go`.
const MAX_SECONDS: i64 = 1 << 32;
/// Default lifetime in seconds.
const DEFAULT_SECONDS: i64 = 3600;

/// Issues a token.
pub(super) fn issue(
    context: &Context,
    accounts: &Resource,
    namespace: &str,
    name: &str,
    mut request: Value,
) -> Result<Value, Status> {
    let state = &context.state;
    let entry = context.entry(accounts, namespace, name)?;
    let account = accounts.read(&entry)?;
    let seconds = match request.number("spec.expirationSeconds") {
        // The default of `pkg/apis/authentication/v1/defaults.go`. An explicit 0 is not
        // distinguished from an absent field here; upstream rejects it.
        0 => DEFAULT_SECONDS,
        seconds => seconds,
    };
    request["spec"]["expirationSeconds"] = seconds.into();
    own(context, GROUP, KIND, "token", &mut request)?;
    check_identity(&request, namespace, name, &account)?;
    let path = Path::new("spec").child("expirationSeconds");
    let refused = |why: &str| {
        let error = FieldError::invalid(&path, seconds, why);
        Err(Status::invalid_as(GROUP, KIND, "", &[error]))
    };
    if seconds < MIN_SECONDS {
        return refused("may not specify a duration less than 10 minutes");
    }
    if seconds > MAX_SECONDS {
        return refused("may not specify a duration larger than 2^32 seconds");
    }
    let mut audiences = request.strings("spec.audiences");
    if audiences.is_empty() {
        // The audience of the API server itself, which is the issuer unless `--api-audiences` names
        // others.
        audiences.push(state.authenticator.issuer().to_owned());
    }
    let bound = bound_object(context, namespace, name, &request)?;
    let node = bound.as_ref().and_then(|object| node_of(context, object));
    let bound = bound.map(|object| {
        let (name, uid) = (meta::name(&object), meta::uid(&object));
        (
            meta::kind(&object).to_owned(),
            name.to_owned(),
            uid.to_owned(),
        )
    });
    let expires = context.now + jiff::SignedDuration::from_secs(seconds);
    let claims = TokenClaims {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: meta::uid(&account).to_owned(),
        audiences: audiences.clone(),
        issued: context.now,
        expires,
        bound,
        node,
        id: Uuid::new_v4().to_string(),
    };
    let token = state
        .authenticator
        .issue(&claims)
        .map_err(|why| Status::internal(&why))?;
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    meta::set_name(&mut request, name);
    meta::set_namespace(&mut request, namespace);
    meta::set_uid(&mut request, meta::uid(&account));
    meta::set_creation_timestamp(&mut request, context.now);
    request["spec"]["audiences"] = audiences.into();
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["status"] = json!({"token": token, "expirationTimestamp": format_time(expires)});
    Ok(request)
}

/// The body may only repeat namespace and name of the path.
fn check_identity(
    request: &Value,
    namespace: &str,
    name: &str,
    account: &Value,
) -> Result<(), Status> {
    let named = [
        ("name", meta::name(request), name),
        ("namespace", meta::namespace(request), namespace),
    ];
    for (field, given, wanted) in named {
        if !given.is_empty() && given != wanted {
            let why = format!("must match the service account {field} if specified");
            let path = Path::new("metadata").child(field);
            let error = FieldError::invalid(&path, given, why);
            return Err(Status::invalid_as(GROUP, KIND, name, &[error]));
        }
    }
    let (given, uid) = (meta::uid(request), meta::uid(account));
    if !given.is_empty() && given != uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(
            &GroupResource::new(GROUP, KIND),
            name,
            &why,
        ));
    }
    Ok(())
}

/// Name and UID of an object's node, or of the node itself.
fn node_of(context: &Context, object: &Value) -> Option<(String, String)> {
    let name = match meta::kind(object) {
        "Node" => meta::name(object),
        "Pod" => object.pointer("/spec/nodeName")?.as_str()?,
        _ => return None,
    };
    if name.is_empty() {
        return None;
    }
    // A missing node is still named in the token.
    let node = context
        .state
        .store
        .get(&format!("/registry/minions/{name}"));
    let uid = node
        .and_then(|entry| entry.object().ok())
        .map(|node| meta::uid(&node).to_owned());
    Some((name.to_owned(), uid.unwrap_or_default()))
}

/// The object a token is bound to. It has to exist.
fn bound_object(
    context: &Context,
    namespace: &str,
    account: &str,
    request: &Value,
) -> Result<Option<Value>, Status> {
    let reference = request.at("spec.boundObjectRef");
    if reference.is_null() {
        return Ok(None);
    }
    let text = |field: &str| reference.text(field);
    let plural = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => "pods",
        ("v1", "Secret") => "secrets",
        ("v1", "Node") => "nodes",
        (api_version, kind) => {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {api_version}, Kind={kind}"
            )));
        }
    };
    let snapshot = context.state.registry.snapshot();
    let resource = snapshot
        .find("", "v1", plural)
        .ok_or_else(Status::unknown_resource)?;
    let entry = context.entry(resource, namespace, text("name"))?;
    let object = resource.read(&entry)?;
    if plural == "pods" && object.text("spec.serviceAccountName") != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            go_quote(account)
        )));
    }
    let uid = meta::uid(&object);
    if !text("uid").is_empty() && text("uid") != uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            text("uid")
        );
        return Err(Status::conflict(
            &resource.group_resource(),
            text("name"),
            &why,
        ));
    }
    Ok(Some(object))
}
