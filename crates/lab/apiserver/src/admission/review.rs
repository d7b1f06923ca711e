//! `AdmissionReview`: request and response.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::gvk::split_api_version;
use machinery::json::{self, go_quote};
use machinery::meta;
use machinery::status::Status;
use serde_json::{Map, Value, json};

use super::attributes::Attributes;
use super::matching::Invocation;
use crate::auth::UserInfo;
use crate::builtin::value::Read;

/// Supported review versions.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The first version in a webhook's list that is supported.
pub(super) fn version(accepted: &[String]) -> Option<&'static str> {
    // The order of the webhook decides, not that of the server: `admissionReviewVersions` is a list
    // of preferences (`CreateAdmissionObjects` in `webhook/request/admissionreview.go`).
    accepted
        .iter()
        .find_map(|version| VERSIONS.into_iter().find(|known| known == version))
}

/// The request part of a review, without UID and objects; conditions see the same.
pub(super) fn request(attributes: &Attributes<'_>, invocation: &Invocation) -> Map<String, Value> {
    let target = &attributes.target;
    let mut request = Map::new();
    let mut put = |name: &str, value: Value| {
        request.insert(name.to_owned(), value);
    };
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let resource = |group: &str, version: &str, plural: &str| json!({"group": group, "version": version, "resource": plural});
    let gvk = &invocation.kind;
    put("kind", kind(&gvk.group, &gvk.version, &gvk.kind));
    put(
        "resource",
        resource(&invocation.group, &invocation.version, &invocation.plural),
    );
    let gvk = &target.kind;
    put("requestKind", kind(&gvk.group, &gvk.version, &gvk.kind));
    put(
        "requestResource",
        resource(target.group, target.version, target.plural),
    );
    for (name, value) in [
        ("subResource", target.subresource),
        ("requestSubResource", target.subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace()),
    ] {
        if !value.is_empty() {
            put(name, value.into());
        }
    }
    put("operation", attributes.operation.as_str().into());
    put("userInfo", user_info(&attributes.context.user));
    put("dryRun", attributes.dry_run.into());
    put("options", attributes.shown_options());
    request
}

fn user_info(user: &UserInfo) -> Value {
    let mut info = Map::new();
    if !user.name.is_empty() {
        info.insert("username".into(), user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    info.into()
}

/// The whole review.
pub(super) fn question(
    version: &str,
    uid: &str,
    mut request: Map<String, Value>,
    object: &Value,
    old: &Value,
) -> Vec<u8> {
    request.insert("uid".into(), uid.into());
    request.insert("object".into(), object.clone());
    request.insert("oldObject".into(), old.clone());
    json::to_vec(&json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": request,
    }))
}

/// A webhook's response.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// Whether the request is allowed.
    pub(super) allowed: bool,
    /// The status of a denial.
    pub(super) result: Option<Status>,
    /// JSON patch; empty for none.
    pub(super) patch: Vec<u8>,
    /// The declared type of the patch.
    pub(super) patch_type: String,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
}

/// Why a response is unusable.
#[derive(Debug, PartialEq)]
pub(super) enum InvalidResponse {
    /// It does not parse.
    Unreadable(String),
    /// It parses, but is invalid.
    Invalid(String),
}

/// Parses and validates a response.
pub(super) fn answer(
    version: &str,
    uid: &str,
    mutating: bool,
    body: &[u8],
) -> Result<Answer, InvalidResponse> {
    let review = decode(version, body).map_err(InvalidResponse::Unreadable)?;
    let response = review.at("response");
    let invalid = |why: &str| Err(InvalidResponse::Invalid(why.to_owned()));
    if response.is_null() {
        return invalid("webhook response was absent");
    }
    let unreadable = |why: String| InvalidResponse::Unreadable(why);
    let patch = STANDARD
        .decode(response.text("patch"))
        .map_err(|_| unreadable(base64_error(response.text("patch"))))?;
    let patch_type = response.maybe_text("patchType");
    let strict = version == "v1";
    // Only v1 is strict (`VerifyAdmissionResponse`): webhooks of v1beta1 predate these rules, and
    // have to keep working.
    if strict {
        let given = response.text("uid");
        if given != uid {
            let why = format!(
                "expected response.uid={}, got {}",
                go_quote(uid),
                go_quote(given)
            );
            return invalid(&why);
        }
        let (group, own) = split_api_version(meta::api_version(&review)).unwrap_or_default();
        if (group, own, meta::kind(&review)) != ("admission.k8s.io", "v1", "AdmissionReview") {
            let why = format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
                 {group}/{own}, Kind={}",
                meta::kind(&review)
            );
            return invalid(&why);
        }
        match (mutating, patch.is_empty(), patch_type) {
            (true, false, None) => {
                return invalid("webhook returned response.patch but not response.patchType");
            }
            (true, true, Some(_)) => {
                return invalid("webhook returned response.patchType but not response.patch");
            }
            (true, _, Some("")) => {
                return invalid("webhook returned invalid response.patchType of \"\"");
            }
            (false, false, _) => {
                return invalid("validating webhook may not return response.patch");
            }
            (false, _, Some(_)) => {
                return invalid("validating webhook may not return response.patchType");
            }
            _ => {}
        }
    }
    let result = match response.at("status") {
        Value::Null => None,
        status => Some(
            serde_json::from_value(status.clone())
                .map_err(|error| unreadable(format!("json: cannot unmarshal status: {error}")))?,
        ),
    };
    Ok(Answer {
        allowed: response.is_true("allowed"),
        result,
        // The older version did not check the type of a patch.
        patch_type: if strict {
            patch_type.unwrap_or_default().to_owned()
        } else {
            "JSONPatch".to_owned()
        },
        // A validating webhook of v1beta1 may send a patch, which has never had an effect.
        patch: if mutating { patch } else { Vec::new() },
        warnings: response
            .texts("warnings")
            .into_iter()
            .map(str::to_owned)
            .collect(),
    })
}

/// Go's decoder error for invalid base64.
fn base64_error(text: &str) -> String {
    let wrong = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '='));
    let at = text.find(wrong).unwrap_or(text.len());
    format!("illegal base64 data at input byte {at}")
}

/// Parses a review; what is no JSON object is tried as YAML, as upstream's decoder does.
fn decode(version: &str, body: &[u8]) -> Result<Value, String> {
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let parsed = if is_json {
        json::decode(body).map_err(|error| error.to_string())
    } else {
        json::decode_yaml(body).map_err(|error| error.to_string())
    };
    let unknown = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let review = parsed.map_err(unknown)?.value;
    if !review.is_object() {
        return Err(unknown(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json::go_type(&review)
        )));
    }
    let (group, own) = split_api_version(meta::api_version(&review)).unwrap_or_default();
    let kind = meta::kind(&review);
    let other = VERSIONS
        .into_iter()
        .find(|known| *known == own && *known != version);
    match other {
        Some(other) if group == "admission.k8s.io" && kind == "AdmissionReview" => Err(format!(
            "converting ({other}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
        )),
        // The name of upstream's scheme is the place in its source where it was created, and part
        // of the message.
        _ if !kind.is_empty() && (kind != "AdmissionReview" || group != "admission.k8s.io") => {
            Err(format!(
                "no kind {} is registered for version {} in scheme \
                 \"k8s.io/apiserver/pkg/util/webhook/client.go:70\"",
                go_quote(kind),
                go_quote(meta::api_version(&review))
            ))
        }
        _ => Ok(review),
    }
}

/// The denial by a webhook, with its own code and reason as far as they denote an error.
pub(super) fn denial(hook: &str, result: Option<Status>) -> Status {
    let mut status = result.unwrap_or_else(|| Status::failure(0, "", ""));
    "Status".clone_into(&mut status.kind);
    "v1".clone_into(&mut status.api_version);
    // A denial has to be an error for the client even if the webhook sent 200 or nothing
    // (`webhook/errors/statuserror.go`).
    status.code = status.code.max(400);
    if matches!(status.status.as_str(), "" | "Success") {
        "Failure".clone_into(&mut status.status);
    }
    let denied = format!("admission webhook {} denied the request", go_quote(hook));
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}
