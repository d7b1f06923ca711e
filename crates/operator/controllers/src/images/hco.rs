//! The first layer: from nodes and a HyperConverged to an SSP.
//!
//! ```text
//! gather: nodes, HyperConverged, built-in templates, the policy, the architectures found in images
//!   decide: golden_images::hco --> the SSP, the status of the HyperConverged, samples
//!     apply: SSP, by server-side apply
//!       report: status, events, metrics
//! ```

mod report;

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::DataImportCron;
use api::golden::names::AVAILABLE_ARCHITECTURES;
use api::hco::{SSP_NAME, TEMPLATES_KEY};
use api::ssp::{DataImportCronTemplate, GOLDEN_NAMESPACE};
use golden_images::action::annotation;
use golden_images::hco::{Decision, HcoInputs, decide};
use golden_images::layers::Layer;
use golden_images::list::{self, ArchitectureList};
use golden_images::names::for_architecture;
use jiff::Timestamp;
use kube::api::DynamicObject;
use runtime::{
    Cache, Error, Key, Manager, Next, OptionalKindChange, OptionalKinds, Reconcile, decode,
};
use serde_json::Value;

use super::cluster::{Cluster, Converged, concerns, is_hyperconverged, is_listed, ssp_kind};
use super::layer::LayerWatch;
use super::layer_queue::LayerQueue;
use crate::status;
pub(crate) use report::Report;

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = "medley-images-hco";

/// Starts the controller; returns once its caches have synced.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let cluster = Cluster::follow(manager).await;
    let foreign = manager.optional_kinds().clone();
    foreign.follow(&ssp_kind());
    foreign.synced().await;
    let controller = HcoController {
        cluster: cluster.clone(),
        crons: manager.cache::<DataImportCron>(),
        foreign: foreign.clone(),
        report: Report::new(manager),
        layer: LayerWatch::start(manager, Layer::Hco, COMPONENT).await,
    };
    let objects = LayerQueue::default();
    let to = objects.clone();
    foreign.on_change(move |change| match change {
        OptionalKindChange::Object { kind, key, change } if is_hyperconverged(kind) => {
            to.changed(key, change);
        }
        change if concerns(change) || *change.kind() == ssp_kind() => to.add_all(),
        _ => {}
    });
    let to = objects.clone();
    controller.crons.on_change(move |change| {
        let available = |cron: Option<&DataImportCron>| {
            let cron = cron?;
            annotation(&cron.metadata, AVAILABLE_ARCHITECTURES).map(str::to_owned)
        };
        if available(change.old.as_deref()) != available(change.new.as_deref()) {
            to.add_all();
        }
    });
    let to = objects.clone();
    cluster.on_change(move || to.add_all());
    let to = objects.clone();
    controller.layer.on_change(move || to.add_all());
    manager.start(controller, objects.queue(), 1);
    Ok(())
}

struct HcoController {
    cluster: Cluster,
    crons: Cache<DataImportCron>,
    foreign: OptionalKinds,
    report: Report,
    layer: LayerWatch,
}

impl Reconcile for HcoController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(found) = self.cluster.hyperconverged(key).await? else {
            self.report.forget(key);
            return Ok(Next::Wait);
        };
        if found.object.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Wait);
        }
        let mode = self.layer.mode().await?;
        self.report.report_mode(&self.foreign, &found, &mode);
        if !mode.manages() {
            // Its metrics have the names of the operator's own.
            self.report.forget(key);
            return Ok(mode.next());
        }
        let ssps = self.foreign.open(&ssp_kind()).await?;
        let decision = self.decide(&found, ssps.as_ref()).await?;
        // The SSP before the status: the status reports what was deployed, and a
        // rejected apply must not look like success.
        if let (Some(wanted), Some(_)) = (&decision.ssp, &ssps) {
            self.apply(&key.namespace, wanted).await?;
        }
        if decision.status_changed {
            let (of, status) = (&found.object.metadata, &decision.status);
            status::write(&self.foreign, &found.kind, of, status, COMPONENT).await?;
        }
        self.report
            .report_decision(&self.foreign, &found, &decision);
        Ok(Next::Wait)
    }
}

impl HcoController {
    async fn decide(
        &self,
        found: &Converged,
        ssps: Option<&Cache<DynamicObject>>,
    ) -> Result<Decision, Error> {
        let images = &found.images;
        let kept = self.cluster.policy().await?;
        let built_in: Vec<DataImportCronTemplate> =
            self.cluster.built_in(&images.namespace, TEMPLATES_KEY)?;
        let architectures = self
            .cluster
            .architectures(images.placement.as_ref(), &kept.policy);
        let ssp = ssps.and_then(|ssps| ssps.get(&images.namespace, SSP_NAME));
        let ssp = ssp.map(|ssp| decode(&ssp)).transpose()?;
        let discovered = self
            .discovered(built_in.iter().chain(&images.templates))
            .await?;
        Ok(decide(&HcoInputs {
            images,
            built_in: &built_in,
            architectures: &architectures,
            policy: &kept.policy,
            discovered: &discovered,
            ssp_installed: ssps.is_some(),
            ssp: ssp.as_ref(),
            seed: seed(images.uid.as_deref()),
            now: Timestamp::now(),
        }))
    }

    /// Architectures of images, as found by the import layer when it polled their registries.
    async fn discovered(
        &self,
        templates: impl Iterator<Item = &DataImportCronTemplate>,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, Error> {
        let mut found = BTreeMap::new();
        if !is_listed(&self.foreign, &self.crons).await? {
            return Ok(found);
        }
        for template in templates {
            let home = template.metadata.namespace.as_deref();
            let home = home.unwrap_or(GOLDEN_NAMESPACE);
            let name = template.name();
            let crons = list::KNOWN.iter().map(|it| for_architecture(name, it));
            let crons = crons.chain([name.to_owned()]);
            let mut known = crons.filter_map(|cron| {
                let cron = self.crons.get(home, &cron)?;
                let text = annotation(&cron.metadata, AVAILABLE_ARCHITECTURES)?;
                Some(ArchitectureList::parse(text).known.into_iter().collect())
            });
            if let Some(known) = known.next() {
                found.insert(name.to_owned(), known);
            }
        }
        Ok(found)
    }

    async fn apply(&self, namespace: &str, wanted: &Value) -> Result<(), Error> {
        // Without a writer, the CRD was removed meanwhile; its watch event requeues the object.
        if let Some(writer) = self.foreign.writer(&ssp_kind(), Some(namespace), COMPONENT) {
            let key = Key::new(namespace, SSP_NAME);
            writer.apply(&key, wanted).await?;
        }
        Ok(())
    }
}

/// A number that differs between clusters and is stable: derived from the random uid.
fn seed(uid: Option<&str>) -> u64 {
    let digits: String = uid
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}
