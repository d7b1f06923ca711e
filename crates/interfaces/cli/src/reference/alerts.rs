//! The alerts page.

use std::fmt::Write as _;

use controllers::monitoring::ALERTS;

use super::{begin, code, table};

pub(super) fn page() -> String {
    let mut page = begin("Alerts", "the lists `ALERTS` of the job crates");
    page.push_str(
        "\nThey come with `deploy/monitoring`. An alert fires only after a delay, so that short disturbances do not page.\n",
    );
    for (title, alerts) in ALERTS {
        let _ = write!(page, "\n## {title}\n");
        let rows = alerts.iter().map(|alert| {
            vec![
                code(alert.name),
                alert.severity.as_str().to_owned(),
                code(alert.expression),
                alert.lasting.unwrap_or("at once").to_owned(),
                format!("[runbook](../runbooks/{}.md)", alert.name),
            ]
        });
        let head = ["alert", "severity", "expression", "for", "runbook"];
        table(&mut page, &head, rows);
    }
    page
}
