//! Tokens for service accounts (`serviceaccounts/<name>/token`).

use machinery::field::{FieldError, Path};
use machinery::meta;
use machinery::status::Status;
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::auth::TokenClaims;
use crate::resource::Resource;
use crate::rest::Context;

/// Shortest life of a token.
const SHORTEST: i64 = 600;
/// Longest.
const LONGEST: i64 = 1 << 32;
/// Life of a token nobody chose one for.
const DEFAULT: i64 = 3600;

/// Issues a token.
pub(super) fn issue(
    context: &Context,
    accounts: &Resource,
    namespace: &str,
    name: &str,
    mut request: Value,
) -> Result<Value, Status> {
    let state = &context.state;
    let entry = state
        .store
        .get(&accounts.key(namespace, name))
        .ok_or_else(|| accounts.not_found(name))?;
    let account = accounts.read(&entry)?;
    let seconds = match request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
    {
        None | Some(0) => DEFAULT,
        Some(seconds) => seconds,
    };
    let path = Path::new("spec").child("expirationSeconds");
    let refused = |why: &str| {
        let error = FieldError::invalid(&path, seconds, why);
        Err(Status::invalid_as(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            &[error],
        ))
    };
    if seconds < SHORTEST {
        return refused("may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST {
        return refused("may not specify a duration larger than 2^32 seconds");
    }
    let mut audiences: Vec<String> = request
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .map(|list| {
            list.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    if audiences.is_empty() {
        audiences.push(state.authenticator.issuer().to_owned());
    }
    let bound = bound_object(context, namespace, &request)?;
    let expires = context.now + jiff::SignedDuration::from_secs(seconds);
    let claims = TokenClaims {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: meta::uid(&account).to_owned(),
        audiences: audiences.clone(),
        issued: context.now,
        expires,
        bound,
    };
    let token = state
        .authenticator
        .issue(&claims)
        .map_err(|why| Status::internal(&why))?;
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] = json!({
        "name": name,
        "namespace": namespace,
        "creationTimestamp": format_time(context.now),
    });
    request["spec"]["audiences"] = audiences.into();
    request["spec"]["expirationSeconds"] = seconds.into();
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["status"] = json!({"token": token, "expirationTimestamp": format_time(expires)});
    Ok(request)
}

/// The object a token is bound to: kind, name and uid. It has to exist.
fn bound_object(
    context: &Context,
    namespace: &str,
    request: &Value,
) -> Result<Option<(String, String, String)>, Status> {
    let Some(reference) = request
        .pointer("/spec/boundObjectRef")
        .filter(|value| !value.is_null())
    else {
        return Ok(None);
    };
    let text = |field: &str| {
        reference
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
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
    let entry = context
        .state
        .store
        .get(&resource.key(namespace, text("name")))
        .ok_or_else(|| resource.not_found(text("name")))?;
    let object = resource.read(&entry)?;
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
    Ok(Some((
        text("kind").to_owned(),
        text("name").to_owned(),
        uid.to_owned(),
    )))
}
