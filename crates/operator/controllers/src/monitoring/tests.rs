//! Alerts and dashboards query existing metrics, and all metrics are described.

use std::collections::BTreeSet;

use fleet::operators::Installed;
use manifests::DASHBOARDS;
use platform::AddressPolicy;
use runtime::Manager;
use testkit::TestCluster;

use super::{ALERTS, common_metrics, metrics};
use crate::images::cdi::Imports;
use crate::{Job, Options, Registries};

/// Every metric name that queries may use.
fn names() -> BTreeSet<String> {
    let jobs = Job::ALL.iter().flat_map(|job| metrics(*job));
    let webhook = webhook::metrics().into_iter();
    let all = jobs.chain(webhook).chain(common_metrics());
    all.flat_map(|metric| metric.names()).collect()
}

#[tokio::test]
async fn alerts_and_dashboards_query_existing_metrics() {
    let names = names();
    let alerts = ALERTS.iter().flat_map(|(_, alerts)| *alerts);
    let alerts = alerts.map(|alert| (alert.name, alert.expression));
    let pages = DASHBOARDS
        .iter()
        .flat_map(|page| page.expressions().map(|expression| (page.name, expression)));
    for (who, expression) in alerts.chain(pages) {
        let looked_at = api::monitoring::metrics(expression);
        assert!(!looked_at.is_empty(), "{who}: {expression}");
        for metric in looked_at {
            assert!(names.contains(metric), "{who} looks at {metric}");
        }
    }
}

/// The descriptions are complete: running controllers register no other metrics.
#[tokio::test(flavor = "multi_thread")]
async fn all_metrics_are_described() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = cluster.client();
    crate::install(&client, "medley-system").await?;
    fleet::operators::install(&client, &Installed::demo()).await?;
    let manager = Manager::new(client);
    let options = Options {
        jobs: Job::ALL.iter().copied().collect(),
        namespace: "medley-system".to_owned(),
        profiles: Vec::new(),
        version: "v1".to_owned(),
        imports: Imports::Pods {
            image: "medley".to_owned(),
        },
        registries: Registries::default(),
        addresses: AddressPolicy::default(),
        audit_entries: crate::governance::AUDIT_ENTRIES,
        payload_folders: Vec::new(),
    };
    crate::start(&manager, &options).await?;
    let mut described: Vec<_> = Job::ALL.iter().flat_map(|job| metrics(*job)).collect();
    described.extend(common_metrics());
    described.sort();
    described.dedup();
    assert_eq!(manager.metrics().described(), described);
    manager.stop().await;
    Ok(())
}
