use std::collections::BTreeSet;

use super::*;

#[test]
fn every_alert_is_complete() {
    let names: BTreeSet<_> = ALERTS.iter().map(|alert| alert.name).collect();
    assert_eq!(names.len(), ALERTS.len(), "a name is there twice");
    for alert in ALERTS {
        let Alert {
            name,
            summary,
            description,
            ..
        } = alert;
        assert!(name.starts_with("Medley"), "{name}");
        assert!(!alert.metrics().is_empty(), "{name} refers to no metric");
        assert!(summary.ends_with('.'), "{name}: {summary}");
        assert!(description.ends_with('.'), "{name}: {description}");
        assert!(
            alert.runbook_url().ends_with(&format!("/{name}.md")),
            "{name}"
        );
    }
}

#[test]
fn prometheus_rule_is_valid() {
    let rule = prometheus_rule("somewhere");
    assert_eq!(rule["metadata"]["namespace"], "somewhere");
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), ALERTS.len());
    let drift = &rules[0];
    assert_eq!(drift["alert"], "MedleyGovernanceDrift");
    assert_eq!(drift["for"], "15m");
    assert_eq!(drift["labels"]["severity"], "warning");
    let waiting = rules
        .iter()
        .find(|rule| rule["labels"]["severity"] == "info");
    assert_eq!(waiting.unwrap().get("for"), None, "no empty duration");
}
