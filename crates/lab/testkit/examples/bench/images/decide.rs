//! Decisions for a large cluster, without an API server: they are applied to objects in memory
//! until the state is stable. The cost of a further pass is the cost of any change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use api::cdi::{DataImportCron, DataSource, DataVolume, Named, labels};
use api::hco::Images;
use api::ssp::{GOLDEN_NAMESPACE, SSP};
use golden_images::action::{Action, Kind};
use golden_images::architectures::{self, Architectures};
use golden_images::cdi::cron::{Claim, Storage};
use golden_images::cdi::poll::{NextPoll, PollResult, PolledVersion};
use golden_images::cdi::{cron, data_source};
use golden_images::policy::{Override, Policy};
use golden_images::{hco, ssp};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::patch::merge_patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster::{ARCHITECTURE, node, template};
use crate::report::Report;

/// Maximum number of passes to a stable state.
const MAX_PASSES: usize = 20;

/// Measures decisions for this number of images, each for three architectures, and nodes.
pub(super) fn measure(images: usize, nodes: usize, report: &mut Report) -> anyhow::Result<()> {
    let mut cluster_objects = ClusterObjects::new(images, nodes)?;
    let started = Instant::now();
    let first = cluster_objects.run_pass()?;
    report.less_is_better(
        &format!("decide, {images} new images"),
        "ms",
        started.elapsed().as_secs_f64() * 1e3,
    );
    cluster_objects.carry_out(first)?;
    let mut turns = 1;
    loop {
        anyhow::ensure!(turns < MAX_PASSES, "there is no end");
        cluster_objects.import();
        let decided = cluster_objects.run_pass()?;
        if decided.is_empty() {
            break;
        }
        cluster_objects.carry_out(decided)?;
        turns += 1;
    }
    let wanted = images * ARCHITECTURE.len();
    anyhow::ensure!(
        cluster_objects.crons.len() == wanted,
        "{} crons",
        cluster_objects.crons.len()
    );
    anyhow::ensure!(
        cluster_objects.volumes.len() == wanted,
        "{} imports",
        cluster_objects.volumes.len()
    );
    let sources = wanted + images;
    anyhow::ensure!(
        cluster_objects.ready() == sources,
        "{} are ready",
        cluster_objects.ready()
    );
    let started = Instant::now();
    let again = cluster_objects.run_pass()?;
    report.less_is_better(
        &format!("decide, {nodes} nodes, settled"),
        "ms",
        started.elapsed().as_secs_f64() * 1e3,
    );
    anyhow::ensure!(again.is_empty(), "time alone changes something");
    Ok(())
}

/// The objects in memory.
struct ClusterObjects {
    images: Images,
    nodes: Vec<Arc<Node>>,
    policy: Policy,
    ssp: Option<SSP>,
    crons: BTreeMap<Named, DataImportCron>,
    sources: BTreeMap<Named, DataSource>,
    volumes: BTreeMap<Named, DataVolume>,
    claims: BTreeMap<Named, Claim>,
    polled: BTreeMap<Named, PollResult>,
    now: Timestamp,
}

/// The decided changes.
#[derive(Default)]
struct Decided {
    hco: Option<hco::Decision>,
    actions: Vec<Action>,
    crons: Vec<(Named, cron::Decision)>,
    sources: Vec<(Named, data_source::Decision)>,
}

impl Decided {
    fn is_empty(&self) -> bool {
        self.hco.is_none()
            && self.actions.is_empty()
            && self.crons.is_empty()
            && self.sources.is_empty()
    }
}

fn read<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context("reading an object")
}

impl ClusterObjects {
    fn new(images: usize, nodes: usize) -> anyhow::Result<Self> {
        let templates: Vec<Value> = (0..images).map(template).collect();
        Ok(Self {
            images: Images {
                namespace: "kubevirt-hyperconverged".to_owned(),
                name: "kubevirt-hyperconverged".to_owned(),
                common_boot_images: true,
                common_templates_namespace: "openshift".to_owned(),
                field: Some(true),
                templates: read(json!(templates))?,
                ..Images::default()
            },
            nodes: (0..nodes)
                .map(|number| serde_json::from_value(node(number)).map(Arc::new))
                .collect::<Result<_, _>>()?,
            policy: Policy::default(),
            ssp: None,
            crons: BTreeMap::new(),
            sources: BTreeMap::new(),
            volumes: BTreeMap::new(),
            claims: BTreeMap::new(),
            polled: BTreeMap::new(),
            now: Timestamp::from_second(1_700_000_000).context("making a time")?,
        })
    }

    /// One pass of every controller over all objects.
    fn run_pass(&self) -> anyhow::Result<Decided> {
        let architectures = architectures::decide(&architectures::ArchitectureInputs {
            nodes: &self.nodes,
            placement: None,
            wanted: Override::default(),
        });
        let mut decided = Decided::default();
        let layer = hco::decide(&hco::HcoInputs {
            images: &self.images,
            built_in: &[],
            architectures: &architectures,
            policy: &self.policy,
            discovered: &BTreeMap::new(),
            ssp: self.ssp.as_ref(),
            ssp_installed: true,
            seed: 61,
            now: self.now,
        });
        anyhow::ensure!(layer.problems.is_empty(), "{:?}", layer.problems);
        if layer.ssp.is_some() || layer.status_changed {
            decided.hco = Some(layer);
        }
        if let Some(ssp) = &self.ssp {
            decided.actions = self.ssp_layer(ssp, &architectures);
        }
        let imports = by_cron(self.volumes.values(), |it| &it.metadata);
        let claims = by_cron(self.claims.values(), |it| &it.metadata);
        let nodes: BTreeSet<String> = architectures.workload.keys().cloned().collect();
        let storage = Storage {
            class: Some("fast".to_owned()),
            ..Storage::default()
        };
        for (name, cron) in &self.crons {
            let source = named(&cron.spec.managed_data_source);
            let decision = cron::decide(&cron::CronInputs {
                cron,
                polled: self.polled.get(name),
                hindered: None,
                denied: None,
                source: self.sources.get(&source),
                rival: None,
                imports: imports.get(&name.name).map_or(&[], Vec::as_slice),
                claims: claims.get(&name.name).map_or(&[], Vec::as_slice),
                snapshots: &[],
                storage: &storage,
                nodes: &nodes,
                busy: &BTreeSet::new(),
                policy: &self.policy,
                seed: 61,
                now: self.now,
            });
            let asks = decision.poll == NextPoll::Now;
            if asks || decision.status_changed || !decision.actions.is_empty() {
                decided.crons.push((name.clone(), decision));
            }
        }
        for (name, source) in &self.sources {
            let decision = self.source_layer(source);
            if decision.status_changed || decision.labels.is_some() {
                decided.sources.push((name.clone(), decision));
            }
        }
        Ok(decided)
    }

    fn ssp_layer(&self, ssp: &SSP, architectures: &Architectures) -> Vec<Action> {
        let claims = self.claims.iter().map(|(name, it)| {
            let labels = it.metadata.labels.clone();
            (name.clone(), labels.unwrap_or_default())
        });
        let volumes = ssp::Volumes {
            claims: claims.collect(),
            ..ssp::Volumes::default()
        };
        let crons: Vec<DataImportCron> = self.crons.values().cloned().collect();
        let sources: Vec<DataSource> = self.sources.values().cloned().collect();
        ssp::decide(&ssp::SspInputs {
            ssp,
            crons: &crons,
            sources: &sources,
            volumes: &volumes,
            bundle: &[],
            templates: &[],
            policy: &self.policy,
            nodes: &architectures.workload,
            own_architecture: "amd64",
            now: self.now,
        })
        .actions
    }

    fn source_layer(&self, source: &DataSource) -> data_source::Decision {
        data_source::decide(&data_source::DataSourceInputs {
            source,
            sources: &|name| self.sources.get(name),
            claims: &|name| {
                let claim = self.claims.get(name)?;
                claim.metadata.labels.as_ref()
            },
            imports: &|name| {
                let volume = self.volumes.get(name)?;
                let labels = volume.metadata.labels.as_ref()?;
                let phase = volume.status.as_ref()?.phase.as_deref()?;
                Some((labels, phase))
            },
            snapshots: &|_| None,
            now: self.now,
        })
    }

    fn carry_out(&mut self, decided: Decided) -> anyhow::Result<()> {
        if let Some(decision) = decided.hco {
            self.images.status = decision.status;
            if let Some(ssp) = decision.ssp {
                self.ssp = Some(read(ssp)?);
            }
        }
        for action in decided.actions {
            self.act(action)?;
        }
        for (name, decision) in decided.crons {
            if decision.poll == NextPoll::Now {
                let answer = Ok(PolledVersion {
                    digest: format!("sha256:{}", "a".repeat(64)),
                    index: Some(format!("sha256:{}", "b".repeat(64))),
                    architectures: ARCHITECTURE.map(str::to_owned).into(),
                    ..PolledVersion::default()
                });
                let at = self.now;
                self.polled.insert(name.clone(), PollResult { at, answer });
            }
            for action in decision.actions {
                self.act(action)?;
            }
            if let Some(cron) = self.crons.get_mut(&name) {
                cron.status = Some(decision.status);
            }
        }
        for (name, decision) in decided.sources {
            if let Some(patch) = &decision.labels {
                patched(&mut self.sources, &name, patch)?;
            }
            if let Some(source) = self.sources.get_mut(&name) {
                source.status = Some(decision.status);
            }
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> anyhow::Result<()> {
        let name = action.of();
        match action {
            Action::Create { kind, object } => match kind {
                Kind::DataImportCron => drop(self.crons.insert(name, read(object)?)),
                Kind::DataSource => drop(self.sources.insert(name, read(object)?)),
                Kind::DataVolume => {
                    let claim = Claim {
                        metadata: read(object["metadata"].clone())?,
                        mode: Some("Filesystem".to_owned()),
                        capacity: Some("10Gi".to_owned()),
                        ..Claim::default()
                    };
                    self.claims.insert(name.clone(), claim);
                    self.volumes.insert(name, read(object)?);
                }
                other => anyhow::bail!("unexpected create of {other:?}"),
            },
            Action::Patch { kind, patch, .. } => match kind {
                Kind::DataImportCron => patched(&mut self.crons, &name, &patch)?,
                Kind::DataSource => patched(&mut self.sources, &name, &patch)?,
                Kind::DataVolume => patched(&mut self.volumes, &name, &patch)?,
                Kind::Claim => {
                    let claim = self.claims.get_mut(&name).context("a volume is missing")?;
                    let mut object = json!({ "metadata": claim.metadata });
                    merge_patch(&mut object, &patch).map_err(anyhow::Error::msg)?;
                    claim.metadata = read(object["metadata"].take())?;
                }
                other => anyhow::bail!("unexpected change of {other:?}"),
            },
            Action::Delete { kind, of, .. } => anyhow::bail!("{kind:?} {of:?} is deleted"),
        }
        Ok(())
    }

    /// Completes all imports in progress.
    fn import(&mut self) {
        for (name, volume) in &mut self.volumes {
            let status = volume.status.get_or_insert_default();
            status.phase = Some("Succeeded".to_owned());
            if let Some(claim) = self.claims.get_mut(name) {
                claim.bound = true;
            }
        }
    }

    /// Number of DataSources that can be cloned.
    fn ready(&self) -> usize {
        let is_ready = |source: &&DataSource| {
            let conditions = source.status.iter().flat_map(|status| &status.conditions);
            let mut ready = conditions.filter(|it| it.kind == "Ready");
            ready.any(|it| it.status == "True")
        };
        self.sources.values().filter(is_ready).count()
    }
}

fn named(name: &str) -> Named {
    Named {
        namespace: GOLDEN_NAMESPACE.to_owned(),
        name: name.to_owned(),
    }
}

/// Objects by their DataImportCron label.
fn by_cron<'a, T: Clone + 'a>(
    objects: impl Iterator<Item = &'a T>,
    meta: fn(&T) -> &ObjectMeta,
) -> BTreeMap<String, Vec<T>> {
    let mut all: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for object in objects {
        let labels = meta(object).labels.as_ref();
        if let Some(cron) = labels.and_then(|it| it.get(labels::DATA_IMPORT_CRON)) {
            all.entry(cron.clone()).or_default().push(object.clone());
        }
    }
    all
}

fn patched<T: Serialize + DeserializeOwned>(
    objects: &mut BTreeMap<Named, T>,
    name: &Named,
    patch: &Value,
) -> anyhow::Result<()> {
    let object = objects.get_mut(name).context("an object is missing")?;
    let mut value = serde_json::to_value(&*object).context("writing an object")?;
    merge_patch(&mut value, patch).map_err(anyhow::Error::msg)?;
    *object = read(value)?;
    Ok(())
}
