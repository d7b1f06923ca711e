//! Retention of history entries.

use k8s_openapi::jiff::Timestamp;

use super::*;

fn record(revision: i64, correction: bool) -> Record {
    let now = Time(Timestamp::UNIX_EPOCH);
    Record {
        revision,
        plan_digest: String::new(),
        rollback_to: None,
        correction,
        approved_by: Vec::new(),
        approvals: Vec::new(),
        config_uid: None,
        impact: Impact::Low,
        operator_version: String::new(),
        options: None,
        inputs: Vec::new(),
        items: Vec::new(),
        started: now.clone(),
        outcome: Some(Outcome {
            result: PlanResult::Completed,
            finished: now,
            message: String::new(),
        }),
    }
}

#[test]
fn latest_ten_plans_are_kept() {
    let records: Vec<_> = (1..=13).map(|revision| record(revision, false)).collect();
    assert_eq!(prunable(&records, &[]), [3, 2, 1]);
    assert!(prunable(&records[..10], &[]).is_empty());
}

#[test]
fn corrections_do_not_displace_plans() {
    let mut records: Vec<_> = (1..=3).map(|revision| record(revision, false)).collect();
    records.extend((4..=30).map(|revision| record(revision, true)));
    let forgotten = prunable(&records, &[]);
    assert_eq!(forgotten.len(), 17);
    assert!(
        forgotten.iter().all(|revision| *revision > 3),
        "{forgotten:?}"
    );
}

#[test]
fn records_needed_for_rollback_are_kept() {
    let mut records: Vec<_> = (1..=13).map(|revision| record(revision, false)).collect();
    records[1].outcome = None;
    let in_force = Applied {
        revision: 1,
        ..Applied::default()
    };
    assert_eq!(prunable(&records, &[in_force]), [3]);
}

/// Such an entry is of a configuration that was deleted and created again, or of a status that was lost.
#[test]
fn open_entry_of_another_plan_is_abandoned() {
    let mut records: Vec<_> = (1..=3).map(|revision| record(revision, false)).collect();
    for record in &mut records {
        record.plan_digest = format!("digest {}", record.revision);
    }
    assert_eq!(abandoned(&records, (None, None)), None, "all are closed");
    records[1].outcome = None;
    records[2].outcome = None;
    assert_eq!(abandoned(&records, (Some(3), Some("digest 3"))), Some(2));
    // Written, and the status not yet: it is the current one by its digest.
    assert_eq!(abandoned(&records[2..], (Some(2), Some("digest 3"))), None);
    // Superseded, and closed with the next plan.
    assert_eq!(abandoned(&records[2..], (Some(3), Some("digest 4"))), None);
    assert_eq!(abandoned(&records, (None, None)), Some(3));
}
