//! When a report says that an update is complete, or is none.

use super::*;

/// The controller says Complete=False in each of these.
#[test]
fn completion_is_not_claimed_while_the_controller_denies_it() {
    let plan = plan();
    let assess = |change: &dyn Fn(&mut Stage)| {
        let mut moment = Stage::new(2700, &ADOPTERS, &[], ["done"; 6], Some(2640));
        change(&mut moment);
        let report = moment.report(Some(&plan));
        assert_eq!(
            report.is_complete(false),
            report.control_plane.assessment == Assessment::Completed
        );
        let text = report.text(Details::default(), moment.now);
        (report.control_plane.assessment, text)
    };
    assert_eq!(assess(&|_| {}).0, Assessment::Completed);
    let failing = |reason: &'static str| {
        move |moment: &mut Stage| {
            let condition = &mut moment.version.status.as_mut().unwrap().conditions[1];
            condition.status = "True".to_owned();
            condition.reason = reason.to_owned();
        }
    };
    let (assessment, text) = assess(&failing("UpdatePayloadFailed"));
    assert_eq!(assessment, Assessment::Stalled);
    assert!(
        text.starts_with("The cluster is not updating.\n\n= Update Health =\n"),
        "{text}"
    );
    assert!(text.contains("(UpdatePayloadFailed)"), "{text}");
    assert_eq!(
        assess(&failing("ClusterOperatorDegraded")).0,
        Assessment::Completed
    );
    for (kind, status) in [
        ("Available", "False"),
        ("Degraded", "True"),
        ("Degraded", "Unknown"),
    ] {
        let unhealthy = |moment: &mut Stage| {
            let conditions = &mut moment.operators[3].status.as_mut().unwrap().conditions;
            let condition = conditions.iter_mut().find(|it| it.kind == kind).unwrap();
            condition.status = status.to_owned();
        };
        assert_eq!(assess(&unhealthy).0, Assessment::Stalled, "{kind}={status}");
    }
}

#[test]
fn machine_config_rollout_after_the_migration_is_no_update() {
    let moment = Stage::new(2700, &ADOPTERS, &[], ["waiting"; 6], Some(2640));
    let report = |seconds: i64| {
        let mut pools = ["master", "worker"].map(pool);
        for pool in &mut pools {
            let status = json!({ "conditions": [
                { "type": "Updated", "status": "False", "lastTransitionTime": at(seconds).to_string() },
            ] });
            pool.status = serde_json::from_value(status).unwrap();
        }
        moment.report_with(Some(&plan()), &pools)
    };
    let migrating = report(2000);
    assert!(migrating.updating && !migrating.is_complete(true));
    let later = report(2650);
    assert!(!later.updating && later.is_complete(true));
}

/// What `oc adm upgrade status` shows of an update to another version, by the elapsed time.
#[rstest::rstest]
#[case::as_usual(4, Assessment::Progressing, "4m (Est. Time Remaining: 1h7m)")]
#[case::known_pace(20, Assessment::Progressing, "20m (Est. Time Remaining: 13m)")]
#[case::late(40, Assessment::Slow, "40m (Est. Time Remaining: <10m)")]
#[case::much_too_late(
    60,
    Assessment::Stalled,
    "1h (Est. Time Remaining: N/A; estimate duration was 35m)"
)]
fn update_to_another_version_is_assessed_by_time(
    #[case] minutes: i64,
    #[case] assessment: Assessment,
    #[case] duration: &str,
) {
    let mut moment = Stage::new(minutes * 60, &[], &[], WAITING, None);
    let status = moment.version.status.as_mut().unwrap();
    status.history[1].version = "4.17.9".to_owned();
    for (place, operator) in moment.operators.iter_mut().enumerate() {
        let status = operator.status.as_mut().unwrap();
        if place >= 16 {
            status.versions[0].version = "4.17.9".to_owned();
        }
        if place == 0 && minutes > 10 {
            let progressing = status
                .conditions
                .iter_mut()
                .find(|it| it.kind == "Progressing");
            progressing.unwrap().last_transition_time = Some(
                k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(12 * 60)),
            );
        }
    }
    let report = moment.report(None);
    assert_eq!(report.control_plane.assessment, assessment);
    let text = report.text(Details::default(), moment.now);
    assert!(
        text.contains(&format!("\nDuration:        {duration}\n")),
        "{text}"
    );
}

#[test]
fn incomplete_previous_update_is_an_insight() {
    let mut moment = Stage::new(60, &[], &[], WAITING, None);
    let status = moment.version.status.as_mut().unwrap();
    let entry = |state: &str, version: &str| {
        let entry = json!({ "state": state, "version": version, "image": version });
        serde_json::from_value(entry).unwrap()
    };
    status.history[1] = entry("Partial", "4.17.9");
    status.history.push(entry("Partial", "4.17.8"));
    status.history.push(entry("Completed", "4.17.7"));
    for operator in &mut moment.operators {
        operator.status.as_mut().unwrap().versions[0].version = "4.17.7".to_owned();
    }
    let health = moment.report(None).health;
    let messages: Vec<&str> = health.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        messages,
        ["Previous update to 4.17.9 never completed, last complete update was 4.17.7"]
    );
    let status = moment.version.status.as_mut().unwrap();
    status.conditions[1].status = "Unknown".to_owned();
    status.conditions[1].reason = "SlowClusterOperator".to_owned();
    let health = moment.report(None).health;
    assert!(health.iter().any(|it| it.message
        == "Cluster Version version may be failing to proceed with the update (SlowClusterOperator)"));
}
