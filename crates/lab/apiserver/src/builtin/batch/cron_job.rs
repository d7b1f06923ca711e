//! Cron jobs (`ValidateCronJobCreate`).

use jiff::tz::TimeZone;
use machinery::cron::Schedule;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use super::job;
use crate::builtin::apps::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::builtin::entry::Capability::{Generation, Status};
use crate::builtin::entry::Cell::{At, Count, IfSet, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column, content_changed};
use crate::builtin::pod_spec::warnings;
use crate::builtin::value::{Read, fill, fill_empty, same, set};
use crate::builtin::{check, print};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["cj"],
    categories: &["all"],
    capabilities: &[Generation, Status],
    default: |object| {
        fill_empty(object, "spec.concurrencyPolicy", "Allow");
        fill(object, "spec.suspend", false);
        fill(object, "spec.successfulJobsHistoryLimit", 3);
        fill(object, "spec.failedJobsHistoryLimit", 1);
        fill(object, "spec.jobTemplate.spec", json!({}));
        job::default_job_spec(object, "spec.jobTemplate.spec");
    },
    prepare_create: |object, _| set(object, "status", json!({})),
    validate: |object| {
        let mut errors = check_spec(object.at("spec"), None);
        // The controller appends up to eleven characters to the names of Jobs, which have at most
        // 63 (`pkg/apis/batch/validation/validation.go`).
        if object.name().len() > 52 {
            let detail = "must be no more than 52 characters";
            errors.invalid(&Path::new("metadata.name"), object.name(), detail);
        }
        errors
    },
    validate_update: |new, old, part| match part {
        Part::Status => Errors::new(),
        _ => check_spec(new.at("spec"), Some(old.at("spec"))),
    },
    warnings: |new, old| {
        let mut all = Vec::new();
        if old.is_none() {
            all = warnings::about_name(new.name(), apps::POD_NAMES);
        }
        if old.is_none_or(|old| content_changed(new, old)) {
            let path = Path::new("spec.jobTemplate.spec");
            all.extend(job::spec_warnings(&path, new.at("spec.jobTemplate.spec")));
        }
        all
    },
    columns: COLUMNS,
    ..Entry::new("batch", "v1", "CronJob", "cronjobs")
};

const COLUMNS: &[Column] = &[
    NAME,
    column!("Schedule" string Text("spec.schedule") => "When jobs are started"),
    column!("Timezone" string IfSet("spec.timeZone", "<none>") => "Time zone of the schedule"),
    column!("Suspend" boolean Of(|object| print::flag(object.at("spec.suspend")))
        => "Whether it is suspended"),
    column!("Active" integer Count("status.active") => "Jobs that are running"),
    column!("Last Schedule" string At(|object, now| match object.at("status.lastScheduleTime") {
        Value::Null => "<none>".into(),
        time => print::since(time, now).into(),
    }) => "Time since a job was last started"),
    AGE,
    Column {
        cell: Of(|object| print::joined(containers(object), "name")),
        ..CONTAINERS
    },
    Column {
        cell: Of(|object| print::joined(containers(object), "image")),
        ..IMAGES
    },
    Column {
        cell: Of(|object| print::selector(object.at("spec.jobTemplate.spec.selector"))),
        ..SELECTOR
    },
];

fn containers(object: &Value) -> &[Value] {
    object.items("spec.jobTemplate.spec.template.spec.containers")
}

fn check_spec(spec: &Value, was: Option<&Value>) -> Errors {
    let path = Path::new("spec");
    let mut errors = Errors::new();
    let schedule = spec.text("schedule");
    let here = path.child("schedule");
    if schedule.is_empty() {
        errors.required(&here, "");
    } else {
        if let Err(why) = Schedule::parse(schedule) {
            errors.invalid(&here, schedule, why);
        }
        // Accepted for years, so that objects which have it stay updatable.
        let allowed = was.is_some_and(|was| was.text("schedule").contains("TZ"));
        if schedule.contains("TZ") {
            if !allowed {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                errors.invalid(&here, schedule, detail);
            } else if spec.has("timeZone") {
                let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                errors.invalid(&here, schedule, detail);
            }
        }
    }
    errors += check::counts(&path, spec, "startingDeadlineSeconds");
    // Only a new zone is looked up: the database of the host may have dropped the name since.
    if was.is_none_or(|was| !same(was.at("timeZone"), spec.at("timeZone")))
        && let Some(zone) = spec.maybe_text("timeZone")
    {
        errors += check_zone(&path.child("timeZone"), zone);
    }
    let accepted = ["Allow", "Forbid", "Replace"];
    errors += check::choice(&path, spec, "concurrencyPolicy", &accepted);
    let template = spec.at("jobTemplate.spec");
    let here = path.child("jobTemplate").child("spec");
    errors += job::check_job_spec(&here, template);
    if template.has("selector") {
        let detail = "`selector` will be auto-generated";
        let shown = template.at("selector").clone();
        errors.invalid(&here.child("selector"), shown, detail);
    }
    if template.is_true("manualSelector") {
        errors.not_supported(&here.child("manualSelector"), true, ["nil", "false"]);
    }
    errors += check::counts(
        &path,
        spec,
        "successfulJobsHistoryLimit failedJobsHistoryLimit",
    );
    errors
}

fn check_zone(path: &Path, zone: &str) -> Errors {
    if zone.is_empty() {
        return FieldError::invalid(path, zone, "timeZone must be nil or non-empty string").into();
    }
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b".-_+".contains(&c);
    let odd = |part: &str| {
        part == "."
            || part == ".."
            || part.starts_with('-')
            || !(1..=14).contains(&part.len())
            || !part.bytes().all(allowed)
    };
    if zone.split('/').any(odd) {
        return FieldError::invalid(path, zone, format!("unknown time zone {zone}")).into();
    }
    let mut errors = Errors::new();
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in \
                      https://www.iana.org/time-zones";
        errors.invalid(path, zone, detail);
    }
    if zone != "Local" && TimeZone::get(zone).is_err() {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
    errors
}
