//! Whoever is woken by an alert finds a page about it.

use std::fs;
use std::path::Path;

use golden::alerts::ALERTS;

/// What every page answers, in this order.
const SECTIONS: [&str; 4] = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"];

#[test]
fn every_alert_has_a_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
    for alert in ALERTS {
        let page = fs::read_to_string(folder.join(format!("{}.md", alert.name))).unwrap();
        assert!(page.starts_with(&format!("# {}\n", alert.name)), "{page}");
        let places: Vec<_> = SECTIONS.iter().map(|section| page.find(section)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{} has not the sections {SECTIONS:?} in this order",
            alert.name
        );
        assert!(page.contains(alert.expression), "{}", alert.name);
    }
}
