use std::collections::BTreeSet;

use super::*;
use crate::cdi::cron::OUTDATED;
use crate::hco::metrics::{ANNOTATED, ENABLED, SUPPORTED};

#[test]
fn alert_expressions_use_exported_metrics() {
    let measured = [SUPPORTED, ANNOTATED, ENABLED, OUTDATED];
    for (alert, metric) in ALERTS.iter().zip(measured) {
        assert!(alert.expression.contains(metric), "{}", alert.name);
    }
    let names: BTreeSet<_> = ALERTS.iter().map(|alert| alert.name).collect();
    assert_eq!(names.len(), measured.len());
}

#[test]
fn a_rule_is_complete() {
    let rule = ALERTS[0].rule();
    assert_eq!(rule["for"], "10m");
    assert_eq!(
        rule["annotations"]["runbook_url"],
        "https://github.com/medley-dev/medley/blob/main/docs/runbooks/HCOGoldenImageWithNoSupportedArchitecture.md"
    );
    for alert in ALERTS {
        assert!(alert.summary.ends_with('.') && alert.description.ends_with('.'));
    }
}
