use rstest::rstest;

use super::*;

const ALERT: Alert = Alert {
    name: "MedleyThings",
    expression: "medley_things > 0",
    lasting: Some("10m"),
    severity: Severity::Warning,
    labels: &[("operator_health_impact", "none")],
    summary: "There are things.",
    description: "There are {{ $value }} things.",
};

#[rstest]
#[case("medley_a > 0", &["medley_a"])]
#[case("time() - medley_b_seconds > 7 * 24", &["medley_b_seconds"])]
#[case("sum by (controller) (rate(medley_c_total{result=\"x\"}[5m])) > 0", &["medley_c_total"])]
#[case("medley_a unless on (config) (medley_b == 1)", &["medley_a", "medley_b"])]
#[case("kubevirt_d{pending=\"false\"} == 0", &["kubevirt_d"])]
#[case("up == 0", &[])]
fn metrics_are_found_in_expressions(#[case] expression: &'static str, #[case] expected: &[&str]) {
    let alert = Alert {
        expression,
        ..ALERT
    };
    assert_eq!(alert.metrics(), expected);
}

#[test]
fn a_rule_is_complete() {
    assert_eq!(
        ALERT.rule(),
        json!({
            "alert": "MedleyThings",
            "expr": "medley_things > 0",
            "for": "10m",
            "labels": { "severity": "warning", "operator_health_impact": "none" },
            "annotations": {
                "summary": "There are things.",
                "description": "There are {{ $value }} things.",
                "runbook_url": "https://github.com/medley-dev/medley/blob/main/docs/runbooks/MedleyThings.md",
            },
        })
    );
}

#[test]
fn alert_without_wait_has_no_for_clause() {
    let alert = Alert {
        lasting: None,
        severity: Severity::Info,
        labels: &[],
        ..ALERT
    };
    let rule = alert.rule();
    assert_eq!(rule.get("for"), None);
    assert_eq!(rule["labels"], json!({ "severity": "info" }));
}
