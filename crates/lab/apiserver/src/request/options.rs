//! Query parameters and option objects, with their validation
//! (`apimachinery/pkg/apis/meta/{v1,internalversion}/validation`).

use machinery::field::Path;
use machinery::json::go_quote;
use machinery::status::Status;
use serde_json::Value;

use crate::builtin::value::Read as _;
use crate::errors::Errors;

/// The query of a request, decoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query part of a URL.
    pub(crate) fn parse(query: Option<&str>) -> Self {
        Self(
            url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// First value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// First value; empty when absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// A boolean as the API parses it: absent, `false` and `0` are false, all else is true
    /// (including a parameter without a value).
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !matches!(value, "false" | "0"))
    }

    fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value, "false" | "0"))
    }

    fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|error: std::num::ParseIntError| {
                    // The text of Go's `strconv`, which upstream's conversion of query parameters
                    // returns as it is.
                    let why = match error.kind() {
                        std::num::IntErrorKind::PosOverflow
                        | std::num::IntErrorKind::NegOverflow => "value out of range",
                        _ => "invalid syntax",
                    };
                    Status::bad_request(format!(
                        "strconv.ParseInt: parsing {}: {why}",
                        go_quote(text)
                    ))
                }),
        }
    }
}

/// Meaning of a resourceVersion on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Exactly that one.
    Exact,
    /// That one or newer.
    NotOlderThan,
}

/// Options of list, watch and deletecollection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    /// Label selector as sent.
    pub label_selector: String,
    /// Field selector as sent.
    pub field_selector: String,
    /// Whether to watch.
    pub watch: bool,
    /// Send bookmarks.
    pub allow_bookmarks: bool,
    /// `resourceVersion` as sent.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub version_match: Option<VersionMatch>,
    /// How long a watch lasts.
    pub timeout_seconds: Option<i64>,
    /// Page size.
    pub limit: i64,
    /// Continue token of the page.
    pub continue_token: String,
    /// Whether a watch starts with the current state.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the query of a list (`watch` false) or watch.
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let options = Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            watch,
            allow_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: None,
            timeout_seconds: query.integer("timeoutSeconds")?,
            limit: query.integer("limit")?.unwrap_or_default(),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        options.checked(query.text("resourceVersionMatch"))
    }

    fn checked(mut self, version_match: &str) -> Result<Self, Status> {
        let path = Path::new("resourceVersionMatch");
        let mut errors = Errors::new();
        let parsed = match version_match {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        let continued = !self.continue_token.is_empty();
        let not_with_continue = "resourceVersionMatch is forbidden when continue is provided";
        // client-go's reflector falls back to LIST and WATCH when a watch list is rejected
        // (`client-go/tools/cache/reflector.go`).
        if self.watch {
            match self.send_initial_events {
                None if !version_match.is_empty() => errors.forbidden(
                    &path,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                Some(_) if version_match != "NotOlderThan" => {
                    let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                    errors.forbidden(&path, why);
                    if !version_match.is_empty() {
                        errors.not_supported(&path, version_match, ["NotOlderThan"]);
                    }
                }
                _ => {}
            }
            if self.send_initial_events.is_some() && continued {
                errors.forbidden(&path, not_with_continue);
            }
        } else {
            if !version_match.is_empty() {
                if self.resource_version.is_empty() {
                    let why =
                        "resourceVersionMatch is forbidden unless resourceVersion is provided";
                    errors.forbidden(&path, why);
                }
                if continued {
                    errors.forbidden(&path, not_with_continue);
                }
                if parsed.is_none() {
                    errors.not_supported(&path, version_match, ["Exact", "NotOlderThan", ""]);
                }
                if parsed == Some(VersionMatch::Exact) && self.resource_version == "0" {
                    let why =
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    errors.forbidden(&path, why);
                }
            }
            if self.send_initial_events.is_some() {
                let path = Path::new("sendInitialEvents");
                errors.forbidden(&path, "sendInitialEvents is forbidden for list");
            }
        }
        errors.reject("meta.k8s.io", "ListOptions", "")?;
        self.version_match = parsed;
        Ok(self)
    }
}

/// Handling of unknown fields and duplicate keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them with a warning.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

/// The write a [`WriteOptions`] belongs to; only the error texts and allowed options differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// A patch other than apply.
    Patch,
    /// An apply patch.
    Apply,
}

impl WriteKind {
    fn options_kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    /// Process the request without storing it.
    pub dry_run: bool,
    /// Field manager, empty when not given.
    pub field_manager: String,
    /// Handling of unknown fields.
    pub field_validation: FieldValidation,
    /// Take conflicting fields.
    pub force: bool,
}

impl WriteOptions {
    /// Reads and checks the query of a write.
    pub(crate) fn parse(query: &Query, kind: WriteKind) -> Result<Self, Status> {
        let mut errors = Errors::new();
        let force = query.optional_flag("force");
        let manager = query.text("fieldManager");
        if kind == WriteKind::Apply {
            if manager.is_empty() {
                errors.required(&Path::new("fieldManager"), "is required for apply patch");
            }
        } else if kind == WriteKind::Patch && force.is_some() {
            errors.forbidden(
                &Path::new("force"),
                "may not be specified for non-apply patch",
            );
        }
        errors += machinery::apply::validate_field_manager(manager);
        let dry_run = check_dry_run(&query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.not_supported(
                    &Path::new("fieldValidation"),
                    other,
                    ["", "Ignore", "Strict", "Warn"],
                );
                FieldValidation::Warn
            }
        };
        errors.reject("meta.k8s.io", kind.options_kind(), "")?;
        Ok(Self {
            dry_run,
            field_manager: manager.to_owned(),
            field_validation,
            force: force.unwrap_or_default(),
        })
    }
}

/// Parses `dryRun`; only `All` is valid.
fn check_dry_run(values: &[String], errors: &mut Errors) -> bool {
    if values.iter().any(|value| value != "All") || values.len() > 1 {
        errors.not_supported(&Path::new("dryRun"), Value::from(values.to_vec()), ["All"]);
    }
    !values.is_empty()
}

/// A number in a body of options, which is not validated by a schema.
fn body_integer(body: &Value, field: &str) -> Result<Option<i64>, Status> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            if let Some(number) = value.as_i64() {
                return Ok(Some(number));
            }
            let kind = match value {
                Value::Number(number) => format!("number {number}"),
                Value::String(_) => "string".to_owned(),
                Value::Bool(_) => "bool".to_owned(),
                Value::Array(_) => "array".to_owned(),
                _ => "object".to_owned(),
            };
            Err(Status::bad_request(format!(
                "json: cannot unmarshal {kind} into Go struct field DeleteOptions.{field} of type int64"
            )))
        }
    }
}

/// Handling of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted first, the owner waits.
    Foreground,
    /// The owner is deleted at once, they follow.
    Background,
    /// They stay.
    Orphan,
}

/// Preconditions of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    /// Expected uid.
    pub uid: Option<String>,
    /// Expected resourceVersion.
    pub resource_version: Option<String>,
}

/// Options of delete.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    /// Grace period of the object.
    pub grace_period_seconds: Option<i64>,
    /// Preconditions.
    pub preconditions: Preconditions,
    /// Handling of dependents.
    pub propagation: Option<Propagation>,
    /// The deprecated form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// Process the request without deleting.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Parses options from the body, or from the query when there is no body.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let mut errors = Errors::new();
        let (policy, dry_run, mut options) = if let Some(body) = body {
            let text = |path: &str| {
                body.pointer(path)
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            };
            let dry_run = body.strings("dryRun");
            let options = Self {
                grace_period_seconds: body_integer(body, "gracePeriodSeconds")?,
                preconditions: Preconditions {
                    uid: text("/preconditions/uid"),
                    resource_version: text("/preconditions/resourceVersion"),
                },
                orphan_dependents: body.get("orphanDependents").and_then(Value::as_bool),
                ..Self::default()
            };
            (text("/propagationPolicy"), dry_run, options)
        } else {
            let options = Self {
                grace_period_seconds: query.integer("gracePeriodSeconds")?,
                orphan_dependents: query.optional_flag("orphanDependents"),
                ..Self::default()
            };
            let policy = query.get("propagationPolicy").map(str::to_owned);
            (policy, query.all("dryRun"), options)
        };
        if policy.is_some() && options.orphan_dependents.is_some() {
            errors.invalid(
                &Path::new("propagationPolicy"),
                policy.as_deref().unwrap_or_default(),
                "orphanDependents and deletionPropagation cannot be both set",
            );
        }
        options.propagation = match policy.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                errors.not_supported(
                    &Path::new("propagationPolicy"),
                    other,
                    ["Foreground", "Background", "Orphan", "nil"],
                );
                None
            }
        };
        options.dry_run = check_dry_run(&dry_run, &mut errors);
        errors.reject("meta.k8s.io", "DeleteOptions", "")?;
        Ok(options)
    }
}
