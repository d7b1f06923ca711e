//! Reviews: the question of the API server, and the answer.

use std::collections::BTreeMap;

use api::advisor::{GROUP, PLURAL};
use base64::Engine as _;
use governance::admission::{Admission, Verdict, admit, asks_for};
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::access;
use crate::images::{self, Layer};

/// What the API server speaks.
const API_VERSION: &str = "admission.k8s.io/v1";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Question,
}

/// The question, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    operation: String,
    user_info: User,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Debug, Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(rename = "resource")]
    plural: String,
}

/// Who asks.
#[derive(Debug, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub(crate) username: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A question that makes no sense, or cannot be answered now.
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self {
            code: 400,
            message: message.into(),
        }
    }
}

/// Answers a review with a review, whatever it is.
pub async fn answer(client: &Client, body: &[u8], now: Timestamp) -> Value {
    let review: Value = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => {
            let refusal = Refusal::bad(format!("The body is not JSON: {error}"));
            return wrap("", refused(&refusal));
        }
    };
    let uid = review["request"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    match consider(client, review, now).await {
        Ok(response) => wrap(&uid, response),
        Err(refusal) => {
            warn!(
                code = refusal.code,
                message = refusal.message,
                "refused a review"
            );
            wrap(&uid, refused(&refusal))
        }
    }
}

async fn consider(client: &Client, review: Value, now: Timestamp) -> Result<Value, Refusal> {
    let review: Review = serde_json::from_value(review).map_err(|error| {
        Refusal::bad(format!(
            "The body is not an AdmissionReview of {API_VERSION} with a request: {error}"
        ))
    })?;
    if review.api_version != API_VERSION || review.kind != "AdmissionReview" {
        return Err(Refusal::bad(format!(
            "The body is a {} of {}; an AdmissionReview of {API_VERSION} is needed",
            review.kind, review.api_version
        )));
    }
    let request = review.request;
    if request.uid.is_empty() {
        return Err(Refusal::bad("The request has no uid"));
    }
    let Resource {
        group,
        version,
        plural,
    } = request.resource;
    let layer = Layer::of(&group, &plural);
    if layer.is_none() && (group.as_str(), plural.as_str()) != (GROUP, PLURAL) {
        return Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; only {PLURAL}.{GROUP} and what images are made of is decided on here"
        )));
    }
    if request.sub_resource.is_some_and(|part| !part.is_empty()) {
        // The status is written by the operator alone, as its role says.
        return Ok(json!({ "allowed": true }));
    }
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" if request.old_object.is_object() => Some(request.old_object),
        "UPDATE" => return Err(Refusal::bad("The request is an UPDATE without oldObject")),
        other => {
            return Err(Refusal::bad(format!(
                "The operation is {other:?}; CREATE and UPDATE are decided on here"
            )));
        }
    };
    if !request.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    if let Some(layer) = layer {
        let asked = images::Asked {
            user: request.user_info,
            plural,
            version,
            old,
            new: request.object,
        };
        return images::review(client, layer, asked).await;
    }
    let named = request.name.filter(|name| !name.is_empty());
    let name = named
        .or_else(|| {
            request.object["metadata"]["name"]
                .as_str()
                .map(str::to_owned)
        })
        .unwrap_or_default();
    let user = request.user_info;
    // Most requests approve nothing, and the cluster need not be asked about them.
    let may_approve = match asks_for(old.as_ref(), &request.object) {
        None => false,
        Some(_) => access::may_approve(client, &user, &name)
            .await
            .map_err(|message| Refusal { code: 500, message })?,
    };
    let verdict = admit(&Admission {
        name: name.clone(),
        old,
        new: request.object,
        user: user.username.clone(),
        may_approve,
        now,
    });
    Ok(response(&name, &user.username, verdict))
}

fn response(name: &str, user: &str, verdict: Verdict) -> Value {
    match verdict {
        Verdict::Denied { message } => {
            info!(config = name, user, message, "denied");
            denied(&message)
        }
        Verdict::Allowed {
            patch,
            warnings,
            approved,
        } => {
            let mut response = allowed(patch, warnings);
            if !approved.is_empty() {
                let approved = approved.join(",");
                info!(config = name, user, approved, "recording an approval");
                response["auditAnnotations"] = json!({ "approved": approved });
            }
            response
        }
    }
}

/// The answer that lets a request pass, with these changes and warnings.
pub(crate) fn allowed(patch: Vec<Value>, warnings: Vec<String>) -> Value {
    let mut response = json!({ "allowed": true });
    if !patch.is_empty() {
        let patch = Value::Array(patch).to_string();
        let patch = base64::engine::general_purpose::STANDARD.encode(patch);
        response["patch"] = patch.into();
        response["patchType"] = "JSONPatch".into();
    }
    if !warnings.is_empty() {
        response["warnings"] = warnings.into();
    }
    response
}

/// The answer that lets a request not pass.
pub(crate) fn denied(message: &str) -> Value {
    json!({
        "allowed": false,
        "status": { "code": 403, "reason": "Forbidden", "message": message },
    })
}

fn refused(refusal: &Refusal) -> Value {
    let reason = match refusal.code {
        400 => "BadRequest",
        _ => "InternalError",
    };
    json!({
        "allowed": false,
        "status": { "code": refusal.code, "reason": reason, "message": refusal.message },
    })
}

fn wrap(uid: &str, mut response: Value) -> Value {
    response["uid"] = uid.into();
    json!({ "apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response })
}
