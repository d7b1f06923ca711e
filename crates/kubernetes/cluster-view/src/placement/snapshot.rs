//! The view from one reading of the cluster, for commands that run once.

use api::placement::PlacementPolicy;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::node::v1;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use placement::multiarch::{self, MultiarchTuning};
use placement::{Cluster, RuntimeClass, Skip};
use runtime::Error;
use serde_json::{Value, json};

use crate::list::{list, unless_forbidden};
use crate::placement::Settings;
use crate::policies;

/// The cluster state placement decisions read besides the pod, as it was when it was read.
pub struct PlacementSnapshot {
    /// The nodes, grouped by platform.
    pub cluster: Cluster,
    /// The policies and RuntimeClasses.
    pub settings: Settings,
}

impl PlacementSnapshot {
    /// Reads nodes, RuntimeClasses, policies and whether the multiarch-tuning-operator runs. Users who may not read
    /// policies get the built-in one.
    pub async fn read(client: &Client) -> Result<Self, Error> {
        let all = ListParams::default();
        let nodes: Api<Node> = Api::all(client.clone());
        let classes: Api<v1::RuntimeClass> = Api::all(client.clone());
        let (nodes, classes) = tokio::try_join!(list(&nodes, &all), list(&classes, &all))?;
        let policies: Option<Vec<PlacementPolicy>> = match policies::list(client).await {
            // A user who may list nodes but not policies still gets an answer, with the built-in policy; the command
            // is a preview and decides nothing.
            Err(error) if error.code() == Some(403) => None,
            found => found?,
        };
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let operation = format!(
            "reading MutatingWebhookConfiguration {}",
            multiarch::REGISTRATION
        );
        let multiarch = registrations.get(multiarch::REGISTRATION).await;
        let multiarch = unless_forbidden(operation, multiarch)?;
        let multiarch = multiarch.and_then(|live| MultiarchTuning::read(&json!(live)));
        let classes = classes.into_iter().flatten().map(|class| {
            let class = RuntimeClass::read(&json!(class));
            (class.name.clone(), class)
        });
        Ok(Self {
            cluster: nodes.iter().flatten().map(placement::Node::read).collect(),
            settings: Settings::new(policies.iter().flatten(), classes.collect(), multiarch),
        })
    }

    /// The placement settings of the policy that applies to a pod in a namespace, or why none does.
    pub async fn settings_for(
        &self,
        client: &Client,
        namespace: &str,
        pod: &Value,
    ) -> Result<Result<&placement::Settings, Skip>, Error> {
        let api: Api<Namespace> = Api::all(client.clone());
        let operation = format!("reading namespace {namespace}");
        let found = unless_forbidden(operation, api.get(namespace).await)?;
        let labels = found.map(|found| found.labels().clone());
        let labels = labels.unwrap_or_default();
        let policy = self.settings.policies.select(namespace, &labels, pod);
        Ok(policy.map(|policy| &policy.settings))
    }
}
