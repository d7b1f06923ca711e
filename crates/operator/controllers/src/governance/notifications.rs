//! Delivers notifications; what and to whom is decided in [`governance::notifications`].
//!
//! ```text
//! gather: the configuration, ApprovalPolicies, what was sent already
//!   decide: governance::notifications::due
//!     apply: HTTP requests to the receivers, then the ConfigMap that remembers them
//! ```
//!
//! A controller of its own, with its own queue: a receiver that does not answer delays no plan. A failed delivery fails
//! the reconcile, so that the queue repeats it with backoff as long as the phase lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::advisor::VirtPlatformConfig;
use api::approval::ApprovalPolicy;
use bytes::Bytes;
use futures::future::join_all;
use governance::approval::Policy;
use governance::notifications::{
    Delivery, SECRET, SENT, SIGNATURE_HEADER, Sent, due, payload, receivers, signature,
};
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _};
use oci::{Client, Post, Tls};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use runtime::{Absent as _, Cache, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;
use tokio::time::timeout;

/// Name of the controller, and its field manager.
const NAME: &str = "medley-notifications";

/// How long a receiver may take for all of a request. Chat services answer within a second; a longer wait would delay
/// the notifications of other configurations.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Delivered {
    receiver: String,
    result: &'static str,
}

/// Metrics of deliveries.
pub(crate) struct DeliveryMetrics {
    deliveries: Family<Delivered, Counter>,
}

impl DeliveryMetrics {
    pub(crate) fn new(manager: &Manager) -> Self {
        Self {
            deliveries: manager.metrics().counter(
                "governance_notifications",
                "Notifications sent to receivers, by result",
            ),
        }
    }

    fn count(&self, receiver: &str, result: &'static str) {
        let labels = Delivered {
            receiver: receiver.to_owned(),
            result,
        };
        self.deliveries.get_or_create(&labels).inc();
    }
}

/// Starts the controller.
pub(super) async fn start(
    manager: &Manager,
    configs: &Cache<VirtPlatformConfig>,
    client: Client,
    namespace: &str,
) {
    let maps: Api<ConfigMap> = Api::namespaced(manager.client(), namespace);
    let sent = manager.watch(Cache::follow_named(maps.clone(), SENT));
    // Before the first delivery: without what was sent, everything would be sent again.
    sent.synced().await;
    let policies: Cache<ApprovalPolicy> = manager.cache();
    let queue: Queue<Key> = Queue::new();
    let enqueue = queue.clone();
    configs.on_change(move |change| {
        if let Some(config) = change.object() {
            enqueue.add(Key::of(&config.metadata));
        }
    });
    let (enqueue, all) = (queue.clone(), configs.clone());
    policies.on_change(move |_| {
        for config in all.list() {
            enqueue.add(Key::of(&config.metadata));
        }
    });
    let controller = NotificationController {
        configs: configs.clone(),
        policies,
        writer: Writer::new(maps, NAME).shown_by(&sent),
        sent,
        secrets: Api::namespaced(manager.client(), namespace),
        namespace: namespace.to_owned(),
        client,
        events: crate::reasons::events(manager, super::COMPONENT),
        metrics: DeliveryMetrics::new(manager),
        failing: Mutex::default(),
    };
    // One worker: all deliveries are remembered in one object.
    manager.start(controller, &queue, 1);
}

struct NotificationController {
    configs: Cache<VirtPlatformConfig>,
    policies: Cache<ApprovalPolicy>,
    sent: Cache<ConfigMap>,
    writer: Writer<ConfigMap>,
    secrets: Api<Secret>,
    namespace: String,
    client: Client,
    events: Events,
    metrics: DeliveryMetrics,
    /// Receivers and notifications that could not be delivered, so that an event is emitted only the first time.
    failing: Mutex<BTreeSet<(String, String)>>,
}

impl Reconcile for NotificationController {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let policies = self.policies.list();
        let policies: Vec<_> = policies.iter().map(|it| Policy::from(&**it)).collect();
        let mut sent = self.sent();
        if let Some(config) = self.configs.find(key) {
            loop {
                let due = due(&config, &policies, &sent, Timestamp::now());
                if due.is_empty() {
                    break;
                }
                let failures = self.deliver_all(&config, &due, &mut sent).await?;
                if !failures.is_empty() {
                    let (config, failures) = (&key.name, failures.join("; "));
                    let message = format!("notifying receivers about {config}: {failures}");
                    return Err(Error::Late(message));
                }
            }
        }
        let configs = self.configs.list();
        let configs = configs.iter().map(|config| config.name_any()).collect();
        sent.retain(&receivers(&policies, None), &configs);
        self.remember(&sent).await?;
        Ok(Next::Wait)
    }
}

impl NotificationController {
    /// What was delivered.
    fn sent(&self) -> Sent {
        let map = self.sent.get(&self.namespace, SENT);
        let data = map.as_ref().and_then(|map| map.data.as_ref());
        data.map(Sent::read).unwrap_or_default()
    }

    /// Remembers what was delivered, unless that is known.
    async fn remember(&self, sent: &Sent) -> Result<(), Error> {
        if *sent == self.sent() {
            return Ok(());
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": SENT, "namespace": self.namespace },
            "data": sent.data(),
        });
        let key = Key::new(self.namespace.clone(), SENT);
        self.writer.apply(&key, &map).await?;
        Ok(())
    }

    /// Delivers to all receivers at the same time, and remembers those that accepted. Returns what failed.
    async fn deliver_all(
        &self,
        config: &VirtPlatformConfig,
        due: &[Delivery],
        sent: &mut Sent,
    ) -> Result<Vec<String>, Error> {
        // Read for each delivery, and not kept: it has credentials.
        let secret = self.secrets.get(SECRET).await.not_found_as_none();
        let operation = format!("reading Secret {}/{SECRET}", self.namespace);
        let secret = secret.map_err(Error::api(operation))?;
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let deliveries = due.iter().map(|delivery| self.deliver(delivery, &data));
        let results = join_all(deliveries).await;
        let mut failures = Vec::new();
        for (delivery, result) in due.iter().zip(results) {
            let receiver = &delivery.receiver.name;
            let failing = (receiver.clone(), delivery.notification.id.clone());
            match result {
                Ok(()) => {
                    sent.record(delivery);
                    self.metrics.count(receiver, "success");
                    self.failing.lock().remove(&failing);
                }
                Err(why) => {
                    self.metrics.count(receiver, "error");
                    let message = format!("receiver {receiver}: {why}");
                    if self.failing.lock().insert(failing) {
                        let phase = delivery.notification.phase;
                        let text = format!("Cannot deliver the notification of {phase}: {message}");
                        self.events.warning(config, "NotificationFailed", text);
                    }
                    failures.push(message);
                }
            }
        }
        self.remember(sent).await?;
        Ok(failures)
    }

    async fn deliver(
        &self,
        delivery: &Delivery,
        secret: &BTreeMap<String, ByteString>,
    ) -> Result<(), String> {
        let post = post(delivery, secret, Timestamp::now())?;
        match timeout(DELIVERY_TIMEOUT, self.client.post(post)).await {
            Ok(answer) => answer.map_err(|cause| cause.to_string()),
            Err(_) => Err(format!("no answer within {DELIVERY_TIMEOUT:?}")),
        }
    }
}

/// The request of a delivery, with what the Secret has for its receiver.
fn post(
    delivery: &Delivery,
    secret: &BTreeMap<String, ByteString>,
    now: Timestamp,
) -> Result<Post, String> {
    let receiver = &delivery.receiver.name;
    let entry = |suffix: &str| {
        let value = secret.get(&format!("{receiver}.{suffix}"));
        value.map(|value| value.0.trim_ascii())
    };
    let url = entry("url").and_then(|url| std::str::from_utf8(url).ok());
    let Some(url) = url else {
        return Err(format!(
            "Secret {SECRET} has no key {receiver}.url with its URL"
        ));
    };
    let authorities = match entry("ca.crt") {
        Some(pem) => Tls::authorities(pem)
            .map_err(|why| format!("key {receiver}.ca.crt of Secret {SECRET}: {why}"))?,
        None => Tls::default(),
    };
    let payload = payload(delivery);
    let body = Bytes::from(payload.body.to_string());
    let mut headers = Vec::new();
    if let Some(key) = entry("key") {
        let signature = signature(key, now, &body);
        let value = HeaderValue::from_str(&signature).map_err(|error| error.to_string())?;
        headers.push((HeaderName::from_static(SIGNATURE_HEADER), value));
    }
    Ok(Post {
        url: url.to_owned(),
        media_type: payload.media_type,
        headers,
        body,
        authorities,
    })
}
