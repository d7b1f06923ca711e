//! One configuration that governs many objects: duration of a plan, latency of drift detection, and
//! idle cost.
//!
//! The operator runs in the benchmark's process, as the released binary has no profile with so many
//! items; the API server runs in its own process. Both are measured separately.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use api::advisor::{Impact, Phase, ProfileOptions, TargetRef, VirtPlatformConfig};
use controllers::governance::Options;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use governance::profile::kinds::CONFIG_MAP;
use governance::profile::{Access, KindUse, Prerequisite, ProfileInfo, Refusal};
use governance::{Intent, Intents, Profile, Registry, Snapshot};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, NotUsed, Object, Patch, PatchParams, PostParams};
use kube::api::{WatchEvent, WatchParams};
use kube::discovery::ApiResource;
use kube::{Api, Client};
use runtime::Manager;
use serde_json::json;

use crate::report::Report;
use crate::target::Target;
use crate::{idle, load};

/// A profile name that the CRD accepts.
const PROFILE: &str = "example-profile";
/// Namespace of the history.
const HISTORY_NAMESPACE: &str = "medley-system";
/// Namespace of the governed objects.
const GOVERNED: &str = "governed";
/// Timeout for a phase.
const PHASE_TIMEOUT: Duration = Duration::from_mins(10);
/// Interval between edits.
const EDIT_INTERVAL: Duration = Duration::from_millis(500);
/// Budget of drift detection, in milliseconds.
const DRIFT_BUDGET_MS: f64 = 200.0;

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) governed: usize,
    pub(crate) rounds: usize,
}

/// Measures the operator with an API server.
pub(crate) async fn measure(
    target: &Target,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.column(target.name);
    let client = target.client().await?;
    controllers::install(&client, HISTORY_NAMESPACE).await?;
    load::fill(target, GOVERNED, size.governed).await?;
    load::fill(target, "unrelated", size.governed).await?;
    let manager = Manager::new(target.client().await?);
    let options = Options {
        registry: Registry::new(vec![Arc::new(Many::new(size.governed))]),
        version: "v1".to_owned(),
        namespace: HISTORY_NAMESPACE.to_owned(),
        client: controllers::Registries::default().client().clone(),
        audit_entries: controllers::governance::AUDIT_ENTRIES,
    };
    controllers::governance::start(&manager, options).await?;
    let mut phases = Phases::follow(client.clone()).await?;
    plan_and_apply(&client, &mut phases, report).await?;
    drift(&client, &mut phases, size, report).await?;
    let configs: Api<VirtPlatformConfig> = Api::all(client);
    let versions = async || {
        let config = configs.get_metadata(PROFILE).await;
        let meta = config.context("reading the configuration")?.metadata;
        let version = meta.resource_version.unwrap_or_default();
        Ok(BTreeMap::from([(PROFILE.to_owned(), version)]))
    };
    idle::quiet(&manager, target, versions, report).await?;
    manager.stop().await;
    Ok(())
}

async fn plan_and_apply(
    client: &Client,
    phases: &mut Phases,
    report: &mut Report,
) -> anyhow::Result<()> {
    let configs: Api<VirtPlatformConfig> = Api::all(client.clone());
    let config = serde_json::from_value(json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1",
        "kind": "VirtPlatformConfig",
        "metadata": { "name": PROFILE },
        "spec": { "profile": PROFILE, "action": "DryRun" },
    }))
    .context("making a configuration")?;
    let started = Instant::now();
    configs
        .create(&PostParams::default(), &config)
        .await
        .context("creating a configuration")?;
    phases.until(Phase::ReviewRequired).await?;
    report.less_is_better("plan made", "s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let approved = json!({ "spec": { "action": "Apply" } });
    configs
        .patch(PROFILE, &PatchParams::default(), &Patch::Merge(&approved))
        .await
        .context("approving the plan")?;
    phases.until(Phase::Completed).await?;
    report.less_is_better("plan applied", "s", started.elapsed().as_secs_f64());
    let request = http::Request::get(format!(
        "/apis/advisor.kubevirt.io/v1alpha1/virtplatformconfigs/{PROFILE}"
    ))
    .body(Vec::new())?;
    let text = client
        .request_text(request)
        .await
        .context("reading the configuration")?;
    let kib = f64::from(u32::try_from(text.len())?) / 1024.0;
    report.less_is_better("configuration", "KiB", kib);
    Ok(())
}

/// Edits governed objects one by one, with pauses, and reverts each.
async fn drift(
    client: &Client,
    phases: &mut Phases,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), GOVERNED);
    let (mut seen, mut resolved) = (Vec::new(), Vec::new());
    for round in 0..size.rounds {
        // Spread over the plan: the position of an object must not matter.
        let name = name(round * size.governed / size.rounds);
        for (value, phase, times) in [
            ("edited", Phase::Drifted, &mut seen),
            (WANTED, Phase::Completed, &mut resolved),
        ] {
            let edit = json!({ "data": { "ours": value } });
            let params = PatchParams {
                field_manager: Some("somebody".to_owned()),
                ..PatchParams::default()
            };
            // The latency of one edit is measured, not the throughput: the pause lets the operator
            // finish with the previous edit.
            tokio::time::sleep(EDIT_INTERVAL).await;
            let started = Instant::now();
            maps.patch(&name, &params, &Patch::Merge(&edit))
                .await
                .with_context(|| format!("editing {name}"))?;
            phases.until(phase).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    for (what, mut times) in [("drift shown", seen), ("drift resolved", resolved)] {
        times.sort_unstable_by(f64::total_cmp);
        report.less_is_better(&format!("{what}, p50"), "ms", percentile(&times, 50));
        report.at_most(
            DRIFT_BUDGET_MS,
            &format!("{what}, p99"),
            "ms",
            percentile(&times, 99),
        );
        report.less_is_better(&format!("{what}, max"), "ms", percentile(&times, 100));
    }
    Ok(())
}

/// A percentile of sorted values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Only the phase is deserialized, to keep the cost of reading small.
type Seen = Object<NotUsed, SeenStatus>;

#[derive(Debug, Clone, Default, serde::Deserialize)]
struct SeenStatus {
    phase: Option<Phase>,
}

/// The phases of the configuration, from a watch.
struct Phases {
    api: Api<Seen>,
    now: Option<Phase>,
    events: BoxStream<'static, kube::Result<WatchEvent<Seen>>>,
}

impl Phases {
    async fn follow(client: Client) -> anyhow::Result<Self> {
        let resource = ApiResource::erase::<VirtPlatformConfig>(&());
        let api: Api<Seen> = Api::all_with(client, &resource);
        let (now, events) = Self::open(&api).await?;
        Ok(Self { api, now, events })
    }

    /// Lists, then watches.
    async fn open(
        api: &Api<Seen>,
    ) -> anyhow::Result<(
        Option<Phase>,
        BoxStream<'static, kube::Result<WatchEvent<Seen>>>,
    )> {
        let listed = api
            .list(&ListParams::default())
            .await
            .context("listing configurations")?;
        let now = listed.items.first().and_then(phase);
        let from = listed.metadata.resource_version.unwrap_or_default();
        let events = api
            .watch(&WatchParams::default(), &from)
            .await
            .context("watching configurations")?;
        Ok((now, events.boxed()))
    }

    /// Waits for a phase.
    async fn until(&mut self, wanted: Phase) -> anyhow::Result<()> {
        let waiting = async {
            while self.now != Some(wanted) {
                match self.events.try_next().await {
                    Ok(Some(WatchEvent::Added(seen) | WatchEvent::Modified(seen))) => {
                        self.now = phase(&seen);
                    }
                    Ok(Some(_)) => {}
                    // Watches are closed by the API server after some minutes.
                    Ok(None) | Err(_) => {
                        (self.now, self.events) = Self::open(&self.api).await?;
                    }
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PHASE_TIMEOUT, waiting)
            .await
            .with_context(|| format!("the configuration is not {wanted}"))?
    }
}

fn phase(seen: &Seen) -> Option<Phase> {
    seen.status.as_ref().and_then(|status| status.phase)
}

/// The desired value in the governed objects.
const WANTED: &str = "wanted";

/// An object, as [`load::fill`] names it.
fn name(index: usize) -> String {
    format!("l{index:06}")
}

/// A profile with many items, each of which changes an existing object.
struct Many {
    names: Vec<&'static str>,
}

impl Many {
    fn new(count: usize) -> Self {
        // Profile items need static strings; these live as long as the process.
        let names = (0..count).map(|index| &*name(index).leak());
        Self {
            names: names.collect(),
        }
    }
}

impl Profile for Many {
    fn about(&self) -> &ProfileInfo {
        &ProfileInfo {
            name: PROFILE,
            description: "Many items",
            category: "test",
            impact_summary: "None",
            impact: Impact::Low,
            documentation_url: "",
            advertised: false,
        }
    }

    fn uses(&self) -> &[KindUse] {
        &[KindUse {
            of: CONFIG_MAP,
            versions: &["v1"],
            plural: "configmaps",
            access: Access::ApplyAndDelete,
            named: None,
        }]
    }

    fn prerequisites(&self, _: &ProfileOptions) -> Vec<Prerequisite> {
        Vec::new()
    }

    fn intents(&self, _: &ProfileOptions, _: &Snapshot) -> Result<Intents, Refusal> {
        let items = self.names.iter().map(|name| Intent {
            name,
            target: TargetRef {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                name: (*name).to_owned(),
                namespace: Some(GOVERNED.to_owned()),
            },
            desired: json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": GOVERNED },
                "data": { "ours": WANTED },
            }),
            managed: vec!["data.ours".to_owned()],
            impact: Impact::Low,
            message: format!("{name} will be configured"),
            depends_on: Vec::new(),
        });
        Ok(Intents {
            items: items.collect(),
            ..Intents::default()
        })
    }
}
