//! Keeps the audit log, as ControllerRevisions in the namespace of the operator.
//!
//! The API server refuses every change of the data of a ControllerRevision, so a segment is sealed from the moment it is
//! created; what was deleted is found by `medley audit verify`. What has to be logged follows from the configurations and
//! the history: after a crash the next process logs what is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::VirtPlatformConfig;
use governance::audit::{
    Chain, LABEL, LABEL_VALUE, facts, prunable, read_segment, segment_data, segment_name, segments,
};
use governance::record::CONFIG_LABEL;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use runtime::{Cache, Error, Key, Manager, Next, Queue, Reconcile};
use tokio::sync::Mutex;

use super::history::History;

/// Name of the controller.
const NAME: &str = "medley-audit";

/// Starts the controller. `kept` is the number of entries to keep.
pub(super) fn start(
    manager: &Manager,
    configs: &Cache<VirtPlatformConfig>,
    history: &Arc<History>,
    kept: u64,
) {
    let queue: Queue<Key> = Queue::new();
    let enqueue = queue.clone();
    configs.on_change(move |change| {
        if let Some(config) = change.object() {
            enqueue.add(Key::of(&config.metadata));
        }
    });
    let enqueue = queue.clone();
    history.entries().on_change(move |change| {
        let labels = change.object().map(|entry| entry.labels());
        if let Some(config) = labels.and_then(|labels| labels.get(CONFIG_LABEL)) {
            enqueue.add(Key::new("", config));
        }
    });
    let controller = AuditController {
        configs: configs.clone(),
        history: Arc::clone(history),
        kept,
        chain: Mutex::default(),
    };
    // One worker: there is one chain.
    manager.start(controller, &queue, 1);
}

struct AuditController {
    configs: Cache<VirtPlatformConfig>,
    history: Arc<History>,
    kept: u64,
    /// The chain, as of the segments with these numbers: it is read again if another process wrote one.
    chain: Mutex<(Vec<u64>, Chain)>,
}

impl Reconcile for AuditController {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let stored = self.stored();
        let numbers: Vec<u64> = stored.keys().copied().collect();
        let mut known = self.chain.lock().await;
        if known.0 != numbers {
            let segments = stored.values().filter_map(|segment| segment.data.as_ref());
            let entries: Vec<_> = segments.flat_map(|data| read_segment(&data.0)).collect();
            *known = (numbers, Chain::read(&entries));
        }
        let (numbers, chain) = &mut *known;
        let config = self.configs.find(key);
        let records = self.history.of(&key.name);
        let facts = facts(&key.name, config.as_deref(), &records, chain);
        for segment in segments(chain.append(facts, Timestamp::now())) {
            let Some(first) = segment.first().map(|entry| entry.sequence) else {
                continue;
            };
            // A conflict: another process has written this segment. The next attempt continues after it.
            self.history
                .writer()
                .create(&revision(first, segment_data(&segment)))
                .await?;
            numbers.push(first);
            for entry in &segment {
                chain.take(entry);
            }
        }
        for first in prunable(numbers, chain.next(), self.kept) {
            if let Some(segment) = stored.get(&first) {
                self.history.writer().delete(&segment.metadata).await?;
            }
            numbers.retain(|number| *number != first);
        }
        Ok(Next::Wait)
    }
}

impl AuditController {
    /// The segments by the number of their first entry.
    fn stored(&self) -> BTreeMap<u64, Arc<ControllerRevision>> {
        let entries = self.history.entries().list().into_iter();
        let segments = entries.filter(|entry| {
            let labels = entry.labels();
            labels.get(LABEL).is_some_and(|value| value == LABEL_VALUE)
        });
        segments
            .filter_map(|segment| Some((u64::try_from(segment.revision).ok()?, segment)))
            .collect()
    }
}

fn revision(first: u64, data: serde_json::Value) -> ControllerRevision {
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(segment_name(first)),
            labels: Some([(LABEL.to_owned(), LABEL_VALUE.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: i64::try_from(first).unwrap_or(i64::MAX),
    }
}
