//! Inputs of the approval decision besides the configuration: ApprovalPolicies, and whether admission records
//! approvals.

use api::advisor::WEBHOOK;
use api::approval::ApprovalPolicy;
use governance::approval::Policy;
use governance::recorder::{AUTHORITY, AUTHORITY_KEY, Recorder, verify};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use runtime::{Cache, Error, Manager};

/// Caches of the policies, the webhook registration and the CA that the webhook publishes.
pub(super) struct Approvals {
    policies: Cache<ApprovalPolicy>,
    webhooks: Cache<MutatingWebhookConfiguration>,
    authorities: Cache<ConfigMap>,
    namespace: String,
}

impl Approvals {
    pub(super) fn follow(manager: &Manager, namespace: &str) -> Self {
        let api: Api<ConfigMap> = Api::namespaced(manager.client(), namespace);
        let authorities = manager.watch(Cache::follow_named(api, AUTHORITY));
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(manager.client());
        let webhooks = manager.watch(Cache::follow_named(registrations, WEBHOOK));
        Self {
            policies: manager.cache(),
            webhooks,
            authorities,
            namespace: namespace.to_owned(),
        }
    }

    /// Waits until the caches have synced: deciding without a policy that exists would run a plan it forbids.
    pub(super) async fn synced(&self) {
        self.policies.synced().await;
        self.webhooks.synced().await;
        self.authorities.synced().await;
    }

    /// Calls `notify` when a change may allow a plan to run, or stop it.
    pub(super) fn on_change(&self, notify: impl Fn() + Clone + Send + Sync + 'static) {
        let call = notify.clone();
        self.policies.on_change(move |_| call());
        let call = notify.clone();
        self.authorities.on_change(move |_| call());
        self.webhooks.on_change(move |_| notify());
    }

    pub(super) fn policies(&self) -> Vec<Policy> {
        let policies = self.policies.list();
        policies.iter().map(|it| Policy::from(&**it)).collect()
    }

    /// Whether admission records approvals.
    pub(super) fn recorder(&self) -> Recorder {
        let registration = self.webhooks.get("", WEBHOOK);
        let published = self.authorities.get(&self.namespace, AUTHORITY);
        verify(
            registration.as_deref(),
            published.as_deref().and_then(authority),
        )
    }

    /// Policies and recorder, read from the API server instead of the caches.
    pub(super) async fn read(&self, client: &Client) -> Result<(Vec<Policy>, Recorder), Error> {
        let policies: Api<ApprovalPolicy> = Api::all(client.clone());
        let policies = policies
            .list(&ListParams::default())
            .await
            .map_err(Error::api("listing ApprovalPolicies"))?;
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let registration = registrations
            .get_opt(WEBHOOK)
            .await
            .map_err(Error::api(format!(
                "reading MutatingWebhookConfiguration {WEBHOOK}"
            )))?;
        let published = self.authorities.get(&self.namespace, AUTHORITY);
        let recorder = verify(
            registration.as_ref(),
            published.as_deref().and_then(authority),
        );
        Ok((policies.iter().map(Policy::from).collect(), recorder))
    }
}

fn authority(published: &ConfigMap) -> Option<&[u8]> {
    let data = published.data.as_ref()?;
    data.get(AUTHORITY_KEY).map(String::as_bytes)
}
