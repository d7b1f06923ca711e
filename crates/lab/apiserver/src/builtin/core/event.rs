//! Events: one store, two API groups.
//!
//! `v1` and `events.k8s.io/v1` have different names for the same fields. Objects are stored in the
//! core form; [`to_events_v1`] and [`to_core`] convert between them.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::{Capabilities, Column, Entry, Errors, NAME, column, wide};
use crate::builtin::value::{Read, remove, set};
use crate::builtin::{check, print};

/// Core events.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ev"],
    capabilities: Capabilities {
        create_on_update: true,
        ..Capabilities::NONE
    },
    default: default_core,
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |event| check_event(event, "reportingComponent"),
    validate_update: |new, _, _| check_event(new, "reportingComponent"),
    // Names of events are generated from other names; the API never validated their form.
    name: check::any_name,
    selectable: &[
        ("involvedObject.kind", |e| {
            e.text("involvedObject.kind").to_owned()
        }),
        ("involvedObject.namespace", |e| {
            e.text("involvedObject.namespace").to_owned()
        }),
        ("involvedObject.name", |e| {
            e.text("involvedObject.name").to_owned()
        }),
        ("involvedObject.uid", |e| {
            e.text("involvedObject.uid").to_owned()
        }),
        ("involvedObject.apiVersion", |e| {
            e.text("involvedObject.apiVersion").to_owned()
        }),
        ("involvedObject.resourceVersion", |e| {
            e.text("involvedObject.resourceVersion").to_owned()
        }),
        ("involvedObject.fieldPath", |e| {
            e.text("involvedObject.fieldPath").to_owned()
        }),
        ("reason", |e| e.text("reason").to_owned()),
        ("reportingComponent", |e| {
            e.text("reportingComponent").to_owned()
        }),
        ("source", |e| source(e).to_owned()),
        ("type", |e| e.text("type").to_owned()),
    ],
    columns: COLUMNS,
    cells,
    ..Entry::new("", "v1", "Event", "events", "event")
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
        errors.extend(check_strict(&core));
        errors
    },
    validate_update: |new, old, _| {
        let (new, old) = (to_core(new), to_core(old));
        let mut errors = check_event(&new, "reportingController");
        if new.at("series") != old.at("series") {
            errors.extend(check_series(&new));
        }
        for (field, shown) in [
            ("involvedObject", "involvedObject"),
            ("reason", "reason"),
            ("message", "message"),
            ("source", "source"),
            ("firstTimestamp", "firstTimestamp"),
            ("lastTimestamp", "lastTimestamp"),
            ("count", "count"),
            ("reason", "reason"),
            ("type", "type"),
            ("eventTime", "eventTime"),
            ("action", "action"),
            ("related", "related"),
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
        ] {
            errors.extend(check::immutable(
                &Path::new(shown),
                new.at(field),
                old.at(field),
            ));
        }
        errors
    },
    selectable: &[
        ("reason", |e| e.text("reason").to_owned()),
        ("regarding.kind", |e| e.text("regarding.kind").to_owned()),
        ("regarding.namespace", |e| {
            e.text("regarding.namespace").to_owned()
        }),
        ("regarding.name", |e| e.text("regarding.name").to_owned()),
        ("regarding.uid", |e| e.text("regarding.uid").to_owned()),
        ("regarding.apiVersion", |e| {
            e.text("regarding.apiVersion").to_owned()
        }),
        ("regarding.resourceVersion", |e| {
            e.text("regarding.resourceVersion").to_owned()
        }),
        ("regarding.fieldPath", |e| {
            e.text("regarding.fieldPath").to_owned()
        }),
        ("reportingController", |e| {
            e.text("reportingController").to_owned()
        }),
        ("type", |e| e.text("type").to_owned()),
    ],
    cells: |event, now| cells(&to_core(event), now),
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
        let path = check::path("involvedObject.namespace");
        FieldError::invalid(&path, involved, "does not match event.namespace")
    };
    if event.has("eventTime") {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let controller = event.text("reportingComponent");
        let path = Path::new(controller_field);
        errors.extend(check::required(&path, controller));
        errors.extend(check::qualified(&path, controller));
        for (field, needed, limit) in [
            ("reportingInstance", true, 128),
            ("action", true, 128),
            ("reason", true, 128),
            ("message", false, 1024),
        ] {
            let value = event.text(field);
            let path = Path::new(field);
            if needed && value.is_empty() {
                errors.push(FieldError::required(&path, ""));
            }
            if value.len() > limit {
                let detail = format!("can have at most {limit} characters");
                errors.push(FieldError::invalid(&path, "", detail));
            }
        }
    } else if involved.is_empty() {
        if !matches!(namespace, "" | "default") {
            errors.push(mismatch());
        }
    } else if namespace != involved {
        errors.push(mismatch());
    }
    errors.extend(check::subdomain(&Path::new("namespace"), namespace));
    errors
}

/// Additional rules for new events of the new API.
fn check_strict(event: &Value) -> Errors {
    let mut errors = check_series(event);
    if !event.has("eventTime") {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        let detail = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid(&Path::new("type"), "", detail));
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
            errors.push(FieldError::invalid(
                &Path::new(field),
                "",
                "needs to be unset",
            ));
        }
    }
    errors
}

fn check_series(event: &Value) -> Errors {
    let mut errors = Errors::new();
    if event.has("series") {
        if event.number("series.count") < 2 {
            let path = Path::new("series.count");
            errors.push(FieldError::invalid(&path, "", "should be at least 2"));
        }
        if !event.has("series.lastObservedTime") {
            errors.push(FieldError::required(
                &Path::new("series.lastObservedTime"),
                "",
            ));
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
    column("Last Seen", "string", "Time since the event last happened"),
    column("Type", "string", "Whether this is normal or a warning"),
    column("Reason", "string", "What happened, in one word"),
    column("Object", "string", "What it happened to"),
    wide(
        "Subobject",
        "string",
        "The part of the object it happened to",
    ),
    wide(
        "Source",
        "string",
        "Component and host that reported the event",
    ),
    column("Message", "string", "What happened"),
    wide(
        "First Seen",
        "string",
        "Time since the event first happened",
    ),
    wide("Count", "string", "How often it happened"),
    Column {
        priority: 1,
        ..NAME
    },
];

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let first = match event.at("firstTimestamp") {
        Value::Null => print::since(event.at("eventTime"), now),
        time => print::since(time, now),
    };
    let mut last = match event.at("lastTimestamp") {
        Value::Null => first.clone(),
        time => print::since(time, now),
    };
    let mut count = event.number("count").max(1);
    if event.has("series") {
        last = print::since(event.at("series.lastObservedTime"), now);
        count = event.number("series.count");
    }
    let kind = event.text("involvedObject.kind").to_lowercase();
    let target = match event.text("involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let host = match event.text("source.host") {
        "" => event.text("reportingInstance"),
        host => host,
    };
    let from = if host.is_empty() {
        source(event).to_owned()
    } else {
        format!("{}, {host}", source(event))
    };
    vec![
        last.into(),
        event.text("type").into(),
        event.text("reason").into(),
        target.into(),
        event.text("involvedObject.fieldPath").into(),
        from.into(),
        event.text("message").trim().into(),
        first.into(),
        json!(count),
        event.name().into(),
    ]
}
