//! Every alert has a runbook, and every runbook belongs to an alert.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Sections of every runbook, in this order.
const SECTIONS: [&str; 4] = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"];

#[test]
fn every_alert_has_a_runbook_and_vice_versa() {
    let alerts = [
        &governance::alerts::ALERTS[..],
        &golden_images::alerts::ALERTS,
        &cpu_models::alerts::ALERTS,
        &release_migration::alerts::ALERTS,
        &placement::alerts::ALERTS,
    ]
    .concat();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/runbooks");
    let pages: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected: BTreeSet<String> = alerts
        .iter()
        .map(|alert| format!("{}.md", alert.name))
        .collect();
    assert_eq!(pages, expected);
    for alert in alerts {
        let page = fs::read_to_string(folder.join(format!("{}.md", alert.name))).unwrap();
        assert!(page.starts_with(&format!("# {}\n", alert.name)), "{page}");
        let places: Vec<_> = SECTIONS.iter().map(|section| page.find(section)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{} has not the sections {SECTIONS:?} in this order",
            alert.name
        );
        assert!(
            page.contains(alert.expression),
            "{} does not show when it fires: {}",
            alert.name,
            alert.expression
        );
    }
}
