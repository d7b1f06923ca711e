//! AdmissionReviews: decoding requests and building responses.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use api::advisor::{GROUP, PLURAL};
use base64::Engine as _;
use governance::admission::options::{check_options, profile_to_ask};
use governance::admission::{Admission, AdmissionVerdict, admit, approval_trigger};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use kube::core::GroupVersionResource;
use runtime::access::EndpointAuthorizer;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::callers::{Caller, Callers, ClientVerification};
use crate::cpu::{self, CpuModels};
use crate::images::{self, Layer};
use crate::placement::{self, Placements};
use crate::watches::Watches;
use crate::{PATH, access};

/// Version of the AdmissionReview API.
const API_VERSION: &str = "admission.k8s.io/v1";

/// An AdmissionReview with a request.
///
/// `kube::core::admission` has a type of its own for it. It decodes objects into a type with metadata and encodes them
/// again, so that what Medley compares and patches would not be what the user sent, and it encodes a patch as an array
/// of numbers, where the API server expects base64. Its parts are used: the resource and the user.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: AdmissionRequest,
}

/// The fields of an AdmissionRequest that are used here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest {
    uid: String,
    pub(crate) resource: GroupVersionResource,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    operation: String,
    user_info: UserInfo,
    #[serde(default)]
    pub(crate) object: Value,
    #[serde(default)]
    old_object: Value,
    /// Identity of the sender, from the connection, never from the review itself.
    #[serde(skip)]
    pub(crate) caller: Caller,
}

/// A path of the webhook. One resource may be registered for several paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Approvals and golden images.
    Admit,
    CpuModels,
    /// Placement of pods.
    Placement,
}

impl Endpoint {
    /// The endpoint of a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            PATH => Some(Self::Admit),
            cpu::PATH => Some(Self::CpuModels),
            placement::PATH => Some(Self::Placement),
            _ => None,
        }
    }
}

/// State behind all endpoints, shared by clones.
#[derive(Clone)]
pub(crate) struct Reviewer {
    client: Client,
    watches: Watches,
    pub(crate) cpu_models: CpuModels,
    pub(crate) placements: Placements,
    /// Authorization for metrics; unset allows all.
    pub(crate) metrics_authorizer: Arc<OnceLock<EndpointAuthorizer>>,
    pub(crate) callers: Callers,
}

impl fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviewer").finish_non_exhaustive()
    }
}

impl Reviewer {
    pub(crate) fn new(client: Client, callers: Callers) -> Self {
        let watches = Watches::new(client.clone());
        Self {
            cpu_models: CpuModels::new(watches.clone()),
            placements: Placements::new(watches.clone()),
            watches,
            metrics_authorizer: Arc::default(),
            callers,
            client,
        }
    }

    /// Readiness of pod placement.
    pub(crate) fn placement_readiness(&self) -> Result<&'static str, String> {
        if self.placements.is_settled() {
            return Ok("");
        }
        Err("not known yet whether a placement controller is running".to_owned())
    }

    /// Readiness of the caches; the error lists what is missing.
    pub(crate) fn unsynced(&self) -> Result<&'static str, String> {
        let kinds = self.watches.unsynced();
        if kinds.is_empty() {
            return Ok("");
        }
        let kinds: Vec<String> = kinds.into_iter().collect();
        Err(format!("not listed yet: {}", kinds.join(", ")))
    }
}

/// An invalid request, or one that cannot be answered now.
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

    /// A transient error; the caller may retry.
    pub(crate) fn later(message: impl Into<String>) -> Self {
        Self {
            code: 500,
            message: message.into(),
        }
    }

    /// The API server did not answer this request of the webhook.
    pub(crate) fn api(operation: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let describe = runtime::Error::api(operation);
        move |error| Self::later(describe(error).to_string())
    }
}

/// Decodes an object; the error names the path of the invalid field.
pub(crate) fn read_object<K: DeserializeOwned>(object: &Value) -> Result<K, Refusal> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.into_inner());
        Refusal::bad(format!("The object cannot be read: {path}: {error}"))
    })
}

/// Answers a review of approvals or images with a review, valid or not.
pub async fn answer(client: &Client, body: &[u8], now: Timestamp) -> Value {
    let callers = Callers::new(ClientVerification::default());
    let reviewer = Reviewer::new(client.clone(), callers);
    match answer_at(&reviewer, Endpoint::Admit, Caller::Unverified, body, now).await {
        Ok(review) => review,
        Err(refusal) => wrap("", refused(&refusal)),
    }
}

/// Answers a review with a review, valid or not. An error makes the HTTP request fail, so that the API server applies
/// the `failurePolicy` of the registration.
pub(crate) async fn answer_at(
    reviewer: &Reviewer,
    endpoint: Endpoint,
    caller: Caller,
    body: &[u8],
    now: Timestamp,
) -> Result<Value, Refusal> {
    let received = Instant::now();
    let (uid, request) = match serde_json::from_slice::<Review>(body) {
        Ok(review) => (review.request.uid.clone(), checked(review)),
        // Invalid reviews get an error response without a decision.
        // Parsed a second time only for an invalid review: the `uid` has to be echoed, or the API server reports a
        // broken webhook instead of the reason.
        Err(_) => match serde_json::from_slice::<Value>(body) {
            Ok(review) => {
                let uid = review["request"]["uid"].as_str();
                (uid.unwrap_or_default().to_owned(), read(review))
            }
            Err(error) => {
                let refusal = Refusal::bad(format!("The body is not JSON: {error}"));
                (String::new(), Err(refusal))
            }
        },
    };
    let request = request.map(|request| AdmissionRequest { caller, ..request });
    let considered = match (request, endpoint) {
        (Err(refusal), _) => Err(refusal),
        (Ok(request), Endpoint::Admit) => consider(&reviewer.client, request, now).await,
        (Ok(request), Endpoint::CpuModels) => cpu::review(&reviewer.cpu_models, request).await,
        (Ok(request), Endpoint::Placement) => {
            placement::review(&reviewer.placements, request, received).await
        }
    };
    match considered {
        Ok(response) => Ok(wrap(&uid, response)),
        // Do not block pod creation because placement is unavailable, unless the failure policy says so: send no
        // response.
        Err(refusal) if endpoint == Endpoint::Placement && refusal.code >= 500 => {
            warn!(
                message = refusal.message,
                "cannot answer the review of a pod"
            );
            Err(refusal)
        }
        Err(refusal) => {
            warn!(
                code = refusal.code,
                message = refusal.message,
                "rejected a review"
            );
            Ok(wrap(&uid, refused(&refusal)))
        }
    }
}

/// Decodes the request of a review.
fn read(review: Value) -> Result<AdmissionRequest, Refusal> {
    let review: Review = serde_json::from_value(review).map_err(|error| {
        Refusal::bad(format!(
            "The body is not an AdmissionReview of {API_VERSION} with a request: {error}"
        ))
    })?;
    checked(review)
}

/// The request, if the review is of the supported version.
fn checked(review: Review) -> Result<AdmissionRequest, Refusal> {
    if review.api_version != API_VERSION || review.kind != "AdmissionReview" {
        return Err(Refusal::bad(format!(
            "The body is a {} of {}; an AdmissionReview of {API_VERSION} is needed",
            review.kind, review.api_version
        )));
    }
    if review.request.uid.is_empty() {
        return Err(Refusal::bad("The request has no uid"));
    }
    Ok(review.request)
}

impl AdmissionRequest {
    /// The existing object; `None` on CREATE.
    pub(crate) fn old(&mut self) -> Result<Option<Value>, Refusal> {
        match self.operation.as_str() {
            "CREATE" => Ok(None),
            "UPDATE" if self.old_object.is_object() => Ok(Some(self.old_object.take())),
            "UPDATE" => Err(Refusal::bad("The request is an UPDATE without oldObject")),
            other => Err(Refusal::bad(format!(
                "The operation is {other:?}; CREATE and UPDATE are accepted"
            ))),
        }
    }
}

async fn consider(
    client: &Client,
    mut request: AdmissionRequest,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let (group, plural) = (&*request.resource.group, &*request.resource.resource);
    let layer = Layer::of(group, plural);
    if layer.is_none() && (group, plural) != (GROUP, PLURAL) {
        return Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; {PLURAL}.{GROUP} and the resources of golden images are accepted"
        )));
    }
    if request
        .sub_resource
        .as_ref()
        .is_some_and(|part| !part.is_empty())
    {
        // Only the operator writes the status, by its role.
        return Ok(json!({ "allowed": true }));
    }
    let old = request.old()?;
    if !request.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    if let Some(layer) = layer {
        let request = images::ImageRequest {
            user: request.user_info,
            resource: request.resource,
            old,
            new: request.object,
        };
        return images::review(client, layer, request).await;
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
    // Most requests approve nothing and need no SubjectAccessReview.
    let may_approve = match approval_trigger(old.as_ref(), &request.object) {
        None => false,
        Some(_) => access::may_approve(client, &user, &name)
            .await
            .map_err(Refusal::later)?,
    };
    let username = user.username.unwrap_or_default();
    if let Some(profile) = profile_to_ask(old.as_ref(), &request.object) {
        let object = access::profile(client, profile).await;
        let object = object.map_err(Refusal::later)?;
        if let Some(Err(message)) = object.map(|object| check_options(&object, &request.object)) {
            let verdict = AdmissionVerdict::Denied { message };
            return Ok(response(&name, &username, verdict));
        }
    }
    let verdict = admit(&Admission {
        name: name.clone(),
        old,
        new: request.object,
        user: username.clone(),
        groups: user.groups.unwrap_or_default(),
        may_approve,
        now,
    });
    Ok(response(&name, &username, verdict))
}

fn response(name: &str, user: &str, verdict: AdmissionVerdict) -> Value {
    match verdict {
        AdmissionVerdict::Denied { message } => {
            info!(config = name, user, message, "denied");
            denied(&message)
        }
        AdmissionVerdict::Allowed {
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

/// A response that allows the request, with these patches and warnings.
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

/// A response that denies the request.
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
