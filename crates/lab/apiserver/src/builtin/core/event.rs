//! Events: one store, two API groups.
//!
//! `v1` and `events.k8s.io/v1` have different names for the same fields. Objects are stored in the
//! core form; [`to_events_v1`] and [`to_core`] convert between them.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::Capability::CreateOnUpdate;
use crate::builtin::entry::Cell::{At, Of, Text};
use crate::builtin::entry::{Column, Entry, Errors, NAME, column, selectable_text};
use crate::builtin::value::{Read, remove, set};
use crate::builtin::{check, print};

/// Core events.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ev"],
    capabilities: &[CreateOnUpdate],
    default: default_core,
    validate: |event| check_event(event, "reportingComponent"),
    validate_update: |new, _, _| check_event(new, "reportingComponent"),
    // Names of events are generated from other names; the API never validated their form.
    name: check::any_name,
    selectable: &[
        selectable_text!("involvedObject.kind"),
        selectable_text!("involvedObject.namespace"),
        selectable_text!("involvedObject.name"),
        selectable_text!("involvedObject.uid"),
        selectable_text!("involvedObject.apiVersion"),
        selectable_text!("involvedObject.resourceVersion"),
        selectable_text!("involvedObject.fieldPath"),
        selectable_text!("reason"),
        selectable_text!("reportingComponent"),
        ("source", |e| source(e).to_owned()),
        selectable_text!("type"),
    ],
    columns: COLUMNS,
    ..Entry::new("", "v1", "Event", "events")
};

/// Events of `events.k8s.io/v1`; functions take that form.
pub(crate) const EVENTS_V1: Entry = Entry {
    default: |event| {
        for field in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            null_if_absent(event, field);
        }
        null_if_absent(event, "eventTime");
        for field in ["regarding", "deprecatedSource"] {
            crate::builtin::value::fill(event, field, json!({}));
        }
    },
    validate: |event| {
        let core = to_core(event);
        let mut errors = check_event(&core, "reportingController");
        errors += check_strict(&core);
        errors
    },
    validate_update: |new, old, _| {
        let (new, old) = (to_core(new), to_core(old));
        let mut errors = check_event(&new, "reportingController");
        // An unchanged series is not checked again: old events would otherwise become impossible to
        // update.
        if new.at("series") != old.at("series") {
            errors += check_series(&new);
        }
        // In upstream's order, which has `reason` twice.
        let fixed = "involvedObject reason message source firstTimestamp lastTimestamp count \
                     reason type eventTime action related";
        errors += check::unchanged(&new, &old, fixed);
        let (controller, was) = (new.at("reportingComponent"), old.at("reportingComponent"));
        errors += check::immutable(&Path::new("reportingController"), controller, was);
        errors += check::unchanged(&new, &old, "reportingInstance");
        errors
    },
    selectable: &[
        selectable_text!("reason"),
        selectable_text!("regarding.kind"),
        selectable_text!("regarding.namespace"),
        selectable_text!("regarding.name"),
        selectable_text!("regarding.uid"),
        selectable_text!("regarding.apiVersion"),
        selectable_text!("regarding.resourceVersion"),
        selectable_text!("regarding.fieldPath"),
        selectable_text!("reportingController"),
        selectable_text!("type"),
    ],
    table_form: Some(to_core),
    group: "events.k8s.io",
    name: machinery::names::name_is_dns_subdomain,
    ..ENTRY
};

/// Fields that the two forms name differently: core, events.k8s.io.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn null_if_absent(event: &mut Value, field: &str) {
    if !event.has(field) {
        set(event, field, Value::Null);
    }
}

/// Go serializes unset times and structs.
fn default_core(event: &mut Value) {
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        null_if_absent(event, field);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        crate::builtin::value::fill(event, field, "");
    }
    for field in ["involvedObject", "source"] {
        crate::builtin::value::fill(event, field, json!({}));
    }
}

fn rename(event: &Value, api_version: &str, to_core: bool) -> Value {
    let mut out = event.clone();
    for (core, events) in NAMES {
        let (from, to) = if to_core {
            (*events, *core)
        } else {
            (*core, *events)
        };
        if let Some(value) = out.as_object_mut().and_then(|fields| fields.remove(from)) {
            // Empty strings are omitted in one form and written in the other.
            let dropped = value == "" && matches!(to, "note" | "message" | "reportingController");
            if !dropped {
                set(&mut out, to, value);
            }
        }
    }
    set(&mut out, "apiVersion", api_version);
    out
}

/// The core form of an event in the form of `events.k8s.io/v1`.
pub(crate) fn to_core(event: &Value) -> Value {
    let mut core = rename(event, "v1", true);
    default_core(&mut core);
    core
}

/// The form of `events.k8s.io/v1` of an event in the core form.
pub(crate) fn to_events_v1(event: &Value) -> Value {
    let mut out = rename(event, "events.k8s.io/v1", false);
    if out.text("reportingInstance").is_empty() {
        remove(&mut out, "reportingInstance");
    }
    (EVENTS_V1.default)(&mut out);
    out
}

/// The rules for events of either form; those of 1.19 and newer have an `eventTime`.
fn check_event(event: &Value, controller_field: &str) -> Errors {
    let mut errors = Errors::new();
    let namespace = event.text("metadata.namespace");
    let involved = event.text("involvedObject.namespace");
    let mismatch = || {
        let path = Path::new("involvedObject.namespace");
        FieldError::invalid(&path, involved, "does not match event.namespace")
    };
    if event.has("eventTime") {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let controller = event.text("reportingComponent");
        let path = Path::new(controller_field);
        errors += check::required(&path, controller);
        errors += check::qualified(&path, controller);
        for (field, needed, limit) in [
            ("reportingInstance", true, 128),
            ("action", true, 128),
            ("reason", true, 128),
            ("message", false, 1024),
        ] {
            let value = event.text(field);
            let path = Path::new(field);
            if needed && value.is_empty() {
                errors.required(&path, "");
            }
            if value.len() > limit {
                errors.invalid(&path, "", format!("can have at most {limit} characters"));
            }
        }
    } else if involved.is_empty() {
        if !matches!(namespace, "" | "default") {
            errors.push(mismatch());
        }
    } else if namespace != involved {
        errors.push(mismatch());
    }
    errors += check::subdomain(&Path::new("namespace"), namespace);
    errors
}

/// Additional rules for new events of the new API.
fn check_strict(event: &Value) -> Errors {
    let mut errors = check_series(event);
    if !event.has("eventTime") {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
    }
    let sourced =
        !event.text("source.component").is_empty() || !event.text("source.host").is_empty();
    for (field, set) in [
        ("firstTimestamp", event.has("firstTimestamp")),
        ("lastTimestamp", event.has("lastTimestamp")),
        ("count", event.number("count") != 0),
        ("source", sourced),
    ] {
        if set {
            errors.invalid(&Path::new(field), "", "needs to be unset");
        }
    }
    errors
}

fn check_series(event: &Value) -> Errors {
    let mut errors = Errors::new();
    if event.has("series") {
        if event.number("series.count") < 2 {
            errors.invalid(&Path::new("series.count"), "", "should be at least 2");
        }
        if !event.has("series.lastObservedTime") {
            errors.required(&Path::new("series.lastObservedTime"), "");
        }
    }
    errors
}

fn source(event: &Value) -> &str {
    match event.text("source.component") {
        "" => event.text("reportingComponent"),
        component => component,
    }
}

const COLUMNS: &[Column] = &[
    column!("Last Seen" string At(last_seen) => "Time since the event last happened"),
    column!("Type" string Text("type") => "Whether this is normal or a warning"),
    column!("Reason" string Text("reason") => "What happened, in one word"),
    column!("Object" string Of(|event| {
        let kind = event.text("involvedObject.kind").to_lowercase();
        match event.text("involvedObject.name") {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }) => "What it happened to"),
    column!("Subobject" wide Text("involvedObject.fieldPath")
        => "The part of the object it happened to"),
    column!("Source" wide Of(|event| {
        let host = match event.text("source.host") {
            "" => event.text("reportingInstance"),
            host => host,
        };
        match host {
            "" => source(event).into(),
            host => format!("{}, {host}", source(event)).into(),
        }
    }) => "Component and host that reported the event"),
    column!("Message" string Of(|event| event.text("message").trim().into()) => "What happened"),
    column!("First Seen" wide At(first_seen) => "Time since the event first happened"),
    column!("Count" wide Of(|event| match event.at("series") {
        Value::Null => event.number("count").max(1).into(),
        series => series.number("count").into(),
    }) => "How often it happened"),
    Column {
        priority: 1,
        ..NAME
    },
];

fn first_seen(event: &Value, now: Timestamp) -> Value {
    match event.at("firstTimestamp") {
        Value::Null => print::since(event.at("eventTime"), now).into(),
        time => print::since(time, now).into(),
    }
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    match (event.at("series"), event.at("lastTimestamp")) {
        (Value::Null, Value::Null) => first_seen(event, now),
        (Value::Null, time) => print::since(time, now).into(),
        (series, _) => print::since(series.at("lastObservedTime"), now).into(),
    }
}
