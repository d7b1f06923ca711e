//! Cron jobs.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use machinery::cron::Schedule;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use super::job;
use crate::builtin::apps;
use crate::builtin::entry::{
    AGE, Capabilities, Column, Entry, Errors, NAME, column, content_changed, wide,
};
use crate::builtin::pod_spec::warnings;
use crate::builtin::value::{Read, fill, fill_empty, same, set};
use crate::builtin::{check, print};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["cj"],
    categories: &["all"],
    capabilities: Capabilities {
        generation: true,
        status: true,
        ..Capabilities::NONE
    },
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
        if object.name().len() > 52 {
            let path = check::path("metadata.name");
            let detail = "must be no more than 52 characters";
            errors.push(FieldError::invalid(&path, object.name(), detail));
        }
        errors
    },
    validate_update: |new, old, part| match part {
        Part::Status => Vec::new(),
        _ => check_spec(new.at("spec"), Some(old.at("spec"))),
    },
    warnings: |new, old| {
        let mut all = Vec::new();
        if old.is_none() {
            all = warnings::about_name(new.name(), apps::POD_NAMES);
        }
        if old.is_none_or(|old| content_changed(new, old)) {
            let path = check::path("spec.jobTemplate.spec");
            all.extend(job::spec_warnings(&path, new.at("spec.jobTemplate.spec")));
        }
        all
    },
    columns: COLUMNS,
    cells,
    ..Entry::new("batch", "v1", "CronJob", "cronjobs", "cronjob")
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Schedule", "string", "When jobs are started"),
    column("Timezone", "string", "Time zone of the schedule"),
    column("Suspend", "boolean", "Whether it is on hold"),
    column("Active", "integer", "Jobs that are running"),
    column(
        "Last Schedule",
        "string",
        "Time since a job was last started",
    ),
    AGE,
    wide("Containers", "string", "Names of the containers"),
    wide("Images", "string", "Images of the containers"),
    wide("Selector", "string", "Which pods belong to the jobs"),
];

fn check_spec(spec: &Value, was: Option<&Value>) -> Errors {
    let path = Path::new("spec");
    let mut errors = Errors::new();
    let schedule = spec.text("schedule");
    let here = path.child("schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required(&here, ""));
    } else {
        if let Err(why) = Schedule::parse(schedule) {
            errors.push(FieldError::invalid(&here, schedule, why));
        }
        let allowed = was.is_some_and(|was| was.text("schedule").contains("TZ"));
        if schedule.contains("TZ") {
            if !allowed {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                errors.push(FieldError::invalid(&here, schedule, detail));
            } else if spec.has("timeZone") {
                let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                errors.push(FieldError::invalid(&here, schedule, detail));
            }
        }
    }
    let deadline = spec.int("startingDeadlineSeconds");
    errors.extend(check::not_negative(
        &path.child("startingDeadlineSeconds"),
        deadline,
    ));
    if was.is_none_or(|was| !same(was.at("timeZone"), spec.at("timeZone")))
        && let Some(zone) = spec.maybe_text("timeZone")
    {
        errors.extend(check_zone(&path.child("timeZone"), zone));
    }
    errors.extend(check::one_of(
        &path.child("concurrencyPolicy"),
        spec.text("concurrencyPolicy"),
        &["Allow", "Forbid", "Replace"],
    ));
    let template = spec.at("jobTemplate.spec");
    let here = path.child("jobTemplate").child("spec");
    errors.extend(job::check_job_spec(&here, template));
    if template.has("selector") {
        let detail = "`selector` will be auto-generated";
        let shown = template.at("selector").clone();
        errors.push(FieldError::invalid(&here.child("selector"), shown, detail));
    }
    if template.is_true("manualSelector") {
        let path = here.child("manualSelector");
        errors.push(FieldError::not_supported(&path, true, ["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.extend(check::not_negative(&path.child(field), spec.int(field)));
    }
    errors
}

fn check_zone(path: &Path, zone: &str) -> Errors {
    if zone.is_empty() {
        let detail = "timeZone must be nil or non-empty string";
        return vec![FieldError::invalid(path, zone, detail)];
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
        return vec![FieldError::invalid(
            path,
            zone,
            format!("unknown time zone {zone}"),
        )];
    }
    let mut errors = Errors::new();
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in \
                      https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(path, zone, detail));
    }
    if zone != "Local" && TimeZone::get(zone).is_err() {
        errors.push(FieldError::invalid(
            path,
            zone,
            format!("unknown time zone {zone}"),
        ));
    }
    errors
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let template = object.at("spec.jobTemplate.spec");
    let [names, images] = print::containers(template.items("template.spec.containers"));
    let last = match object.at("status.lastScheduleTime") {
        Value::Null => "<none>".to_owned(),
        time => print::since(time, now),
    };
    vec![
        object.name().into(),
        object.text("spec.schedule").into(),
        print::maybe(object.maybe_text("spec.timeZone"), "<none>"),
        print::flag(object.at("spec.suspend")),
        json!(object.count("status.active")),
        last.into(),
        print::age(object, now),
        names,
        images,
        print::selector(template.at("selector")),
    ]
}
