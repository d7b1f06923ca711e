//! Reviews: the question of the API server, and the answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use api::advisor::{GROUP, PLURAL};
use base64::Engine as _;
use governance::admission::{Admission, Verdict, admit, asks_for};
use jiff::Timestamp;
use kube::Client;
use runtime::access::Keeper;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::callers::{Caller, Callers, ClientVerification};
use crate::cpu::{self, CpuModels};
use crate::images::{self, Layer};
use crate::placement::{self, Placements};
use crate::{PATH, access};

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
pub(crate) struct Question {
    uid: String,
    pub(crate) resource: Resource,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    operation: String,
    user_info: User,
    #[serde(default)]
    pub(crate) object: Value,
    #[serde(default)]
    old_object: Value,
    /// Who sent the review; never what the review itself says.
    #[serde(skip)]
    pub(crate) caller: Caller,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Resource {
    #[serde(default)]
    pub(crate) group: String,
    #[serde(default)]
    version: String,
    #[serde(rename = "resource")]
    pub(crate) plural: String,
}

/// Where questions of a sort are asked. A kind may be asked about at several doors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Approvals, and what images are made of.
    Admit,
    /// CPU models.
    CpuModels,
    /// Where pods go.
    Placement,
}

impl Door {
    /// The door at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            PATH => Some(Self::Admit),
            cpu::PATH => Some(Self::CpuModels),
            placement::PATH => Some(Self::Placement),
            _ => None,
        }
    }
}

/// Who answers; clones share what they know.
#[derive(Clone)]
pub(crate) struct Reviewer {
    client: Client,
    pub(crate) cpu_models: CpuModels,
    pub(crate) placements: Placements,
    /// Who is shown metrics; everybody, if nobody looks.
    pub(crate) keeper: Arc<OnceLock<Keeper>>,
    pub(crate) callers: Callers,
}

impl fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviewer").finish_non_exhaustive()
    }
}

impl Reviewer {
    pub(crate) fn new(client: Client, callers: Callers) -> Self {
        Self {
            cpu_models: CpuModels::new(client.clone()),
            placements: Placements::new(client.clone()),
            keeper: Arc::default(),
            callers,
            client,
        }
    }

    /// Whether all has been listed that decisions rest on; what is missing if not.
    pub(crate) fn unsynced(&self) -> Result<&'static str, String> {
        let mut kinds = self.cpu_models.unsynced();
        kinds.extend(self.placements.unsynced());
        if kinds.is_empty() {
            return Ok("");
        }
        let kinds: Vec<String> = kinds.into_iter().collect();
        Err(format!("not listed yet: {}", kinds.join(", ")))
    }
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

    /// What cannot be answered now, but may be in a moment.
    pub(crate) fn later(message: impl Into<String>) -> Self {
        Self {
            code: 500,
            message: message.into(),
        }
    }
}

/// An object as what it is.
pub(crate) fn read_object<K: DeserializeOwned>(object: &Value) -> Result<K, Refusal> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.into_inner());
        Refusal::bad(format!("The object cannot be read: {path}: {error}"))
    })
}

/// Answers a review of approvals or images with a review, whatever it is.
pub async fn answer(client: &Client, body: &[u8], now: Timestamp) -> Value {
    let callers = Callers::new(ClientVerification::default());
    let reviewer = Reviewer::new(client.clone(), callers);
    match answer_at(&reviewer, Door::Admit, Caller::Unverified, body, now).await {
        Ok(review) => review,
        Err(refusal) => wrap("", refused(&refusal)),
    }
}

/// Answers a review with a review, whatever it is. There is none if the API server is to go on as its
/// registration says for when nobody answers.
pub(crate) async fn answer_at(
    reviewer: &Reviewer,
    door: Door,
    caller: Caller,
    body: &[u8],
    now: Timestamp,
) -> Result<Value, Refusal> {
    let asked = Instant::now();
    let (uid, question) = match serde_json::from_slice::<Review>(body) {
        Ok(review) => (review.request.uid.clone(), checked(review)),
        // What is wrong is told of the review as a whole, to whoever asked.
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
    let question = question.map(|question| Question { caller, ..question });
    let considered = match (question, door) {
        (Err(refusal), _) => Err(refusal),
        (Ok(question), Door::Admit) => consider(&reviewer.client, question, now).await,
        (Ok(question), Door::CpuModels) => cpu::review(&reviewer.cpu_models, question).await,
        (Ok(question), Door::Placement) => {
            placement::review(&reviewer.placements, question, asked).await
        }
    };
    match considered {
        Ok(response) => Ok(wrap(&uid, response)),
        // Nobody is to be kept from making pods because nobody can say where they go, unless that is
        // what the registration says.
        Err(refusal) if door == Door::Placement && refusal.code >= 500 => {
            warn!(message = refusal.message, "cannot answer about a pod");
            Err(refusal)
        }
        Err(refusal) => {
            warn!(
                code = refusal.code,
                message = refusal.message,
                "refused a review"
            );
            Ok(wrap(&uid, refused(&refusal)))
        }
    }
}

/// The question of a review.
fn read(review: Value) -> Result<Question, Refusal> {
    let review: Review = serde_json::from_value(review).map_err(|error| {
        Refusal::bad(format!(
            "The body is not an AdmissionReview of {API_VERSION} with a request: {error}"
        ))
    })?;
    checked(review)
}

/// The question of a review, if it is one that can be answered.
fn checked(review: Review) -> Result<Question, Refusal> {
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

impl Question {
    /// What there is, unless it is made.
    pub(crate) fn old(&mut self) -> Result<Option<Value>, Refusal> {
        match self.operation.as_str() {
            "CREATE" => Ok(None),
            "UPDATE" if self.old_object.is_object() => Ok(Some(self.old_object.take())),
            "UPDATE" => Err(Refusal::bad("The request is an UPDATE without oldObject")),
            other => Err(Refusal::bad(format!(
                "The operation is {other:?}; CREATE and UPDATE are decided on here"
            ))),
        }
    }
}

async fn consider(
    client: &Client,
    mut request: Question,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let Resource {
        group,
        version,
        plural,
    } = &request.resource;
    let (version, of) = (version.clone(), plural.clone());
    let layer = Layer::of(group, plural);
    if layer.is_none() && (group.as_str(), plural.as_str()) != (GROUP, PLURAL) {
        return Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; only {PLURAL}.{GROUP} and what images are made of is decided on here"
        )));
    }
    if request
        .sub_resource
        .as_ref()
        .is_some_and(|part| !part.is_empty())
    {
        // The status is written by the operator alone, as its role says.
        return Ok(json!({ "allowed": true }));
    }
    let old = request.old()?;
    if !request.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    if let Some(layer) = layer {
        let asked = images::Asked {
            user: request.user_info,
            plural: of,
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
        groups: user.groups.clone(),
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
