//! The metrics page. Call within a runtime.

use std::fmt::Write as _;

use controllers::Job;
use controllers::monitoring;
use runtime::metrics::{Described, Metrics};

use super::{begin, code, sentence, table};
use crate::importer;

pub(super) fn page() -> String {
    let mut page = begin("Metrics", "where they are registered");
    page.push_str(
        "\nThey are served in the OpenMetrics format at `/metrics`. Scraping needs a token and the role \
         `medley-metrics-reader`, unless `--metrics-auth=none` is set. Metrics of an object are removed with \
         the object. A standby replica exports metrics of its process, and none of objects.\n",
    );
    let common = monitoring::common_metrics();
    section(&mut page, "Every process with controllers", &common);
    for job in Job::ALL {
        let own = monitoring::metrics(*job);
        if !own.is_empty() {
            section(&mut page, &format!("`medley run`: {job}"), &own);
        }
    }
    section(&mut page, "`medley webhook`", &webhook::metrics());
    let metrics = Metrics::default();
    drop(importer::progress(&metrics));
    let mut own = metrics.described();
    own.retain(|metric| !common.contains(metric));
    section(&mut page, "`medley importer`", &own);
    page
}

fn section(page: &mut String, title: &str, metrics: &[Described]) {
    let _ = write!(page, "\n## {title}\n");
    let rows = metrics.iter().map(|metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
        vec![
            code(&metric.name),
            metric.kind.to_owned(),
            labels.join(", "),
            sentence(&metric.help),
        ]
    });
    table(page, &["name", "type", "labels", "meaning"], rows);
}
