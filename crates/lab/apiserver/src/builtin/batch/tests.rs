//! Jobs and cron jobs.

use rstest::rstest;
use serde_json::{Value, json};

use crate::builtin::tests::{create_errors, update_errors};
use crate::builtin::value::set;

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
        } } },
    })
}

fn cron_job(path: &str, value: Value) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "j" },
        "spec": { "schedule": "* * * * *", "jobTemplate": { "spec": job()["spec"] } },
    });
    set(&mut object, path, value);
    object
}

#[rstest]
#[case("spec.timeZone", json!("Mars/Base"), &["spec.timeZone: Invalid value: \"Mars/Base\": unknown time zone Mars/Base"])]
#[case("spec.timeZone", json!("Europe/Berlin"), &[])]
#[case(
    "spec.schedule",
    json!("TZ=UTC * * * * *"),
    &["spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"]
)]
#[case(
    "spec.concurrencyPolicy",
    json!("Maybe"),
    &["spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\""]
)]
fn invalid_cron_jobs_are_rejected(
    #[case] path: &str,
    #[case] value: Value,
    #[case] expected: &[&str],
) {
    assert_eq!(create_errors(&cron_job(path, value)), expected);
}

#[test]
fn job_pods_must_not_restart_always() {
    let mut given = job();
    set(&mut given, "spec.template.spec.restartPolicy", "Always");
    assert_eq!(
        create_errors(&given),
        [
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""
        ]
    );
}

#[test]
fn job_template_is_immutable() {
    let containers = json!([{ "name": "c", "image": "other" }]);
    let errors = update_errors(&job(), &[("spec.template.spec.containers", containers)]);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("spec.template: Invalid value: {\"labels\":{"),
        "{errors:?}"
    );
    assert!(errors[0].contains("\"Spec\":{\"Volumes\":null,\"InitContainers\":null,\"Containers\":[{\"Name\":\"c\",\"Image\":\"other\""));
    assert!(errors[0].ends_with("}}: field is immutable"), "{errors:?}");
}
