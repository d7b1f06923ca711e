//! A cluster with controllers: kube-controller-manager on the genuine API server, `controlplane` on the embedded one.
//!
//! Starting the genuine programs takes many seconds, and some of their timeouts are longer, so the
//! cases of a suite share a cluster and run at the same time, each in namespaces of its own.

use std::time::Duration;

use anyhow::Context as _;
use controlplane::Options;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Resource};
use runtime::Manager;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

/// kube-controller-manager rediscovers kinds every 30 s and may need two rounds.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(3);

/// The cluster of a suite.
pub(crate) struct ControlledCluster {
    pub(crate) cluster: TestCluster,
    manager: Option<Manager>,
}

/// A case by its name.
pub(crate) type Case<'a> = (&'static str, BoxFuture<'a, anyhow::Result<()>>);

/// Cases by the names of their functions.
#[macro_export]
macro_rules! cases {
    ($fixture:expr; $($case:ident),* $(,)?) => {
        vec![$((stringify!($case), futures::FutureExt::boxed($case($fixture)))),*]
    };
}

impl ControlledCluster {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::controlled().await?;
        let manager = if cluster.has_controllers() {
            None
        } else {
            let manager = Manager::new(cluster.client());
            let root_ca = cluster.root_ca().to_owned();
            controlplane::start(&manager, &Options { root_ca }).await;
            Some(manager)
        };
        let fixture = Self { cluster, manager };
        let accounts: Api<ServiceAccount> = fixture.api("default");
        present(&accounts, "default")
            .await
            .context("the controllers run")?;
        Ok(fixture)
    }

    /// Runs all cases concurrently; returns an error that names the failed ones.
    pub(crate) async fn run(&self, cases: Vec<Case<'_>>) -> anyhow::Result<()> {
        let names: Vec<_> = cases.iter().map(|(name, _)| *name).collect();
        let results = join_all(cases.into_iter().map(|(_, case)| case)).await;
        let failed: Vec<String> = names
            .into_iter()
            .zip(results)
            .filter_map(|(name, result)| Some(format!("{name}: {:#}", result.err()?)))
            .collect();
        if let Some(manager) = &self.manager {
            manager.stop().await;
        }
        anyhow::ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(())
    }

    /// The objects of a kind in a namespace.
    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), namespace)
    }

    /// Creates the CRD of kites, a kind that only tests use, and waits until it is served.
    pub(crate) async fn kites(
        &self,
        group: &str,
        namespace: &str,
    ) -> anyhow::Result<Api<DynamicObject>> {
        let client = self.cluster.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = json!({
            "metadata": {"name": format!("kites.{group}")},
            "spec": {
                "group": group,
                "names": {"plural": "kites", "kind": "Kite"},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        });
        create(&definitions, definition).await?;
        let resource = ApiResource {
            group: group.to_owned(),
            version: "v1".into(),
            api_version: format!("{group}/v1"),
            kind: "Kite".into(),
            plural: "kites".into(),
        };
        let kites: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        wait_until("kites are served", WAIT_TIMEOUT, || async {
            Ok(kites.list(&ListParams::default()).await.ok().map(drop))
        })
        .await?;
        Ok(kites)
    }
}

/// Creates an object from JSON.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let text = object.to_string();
    let object = serde_json::from_value(object).with_context(|| format!("reading {text}"))?;
    api.create(&PostParams::default(), &object)
        .await
        .with_context(|| format!("creating {text}"))
}

/// Changes an object by a merge patch.
pub(crate) async fn patch<K>(api: &Api<K>, name: &str, patch: Value) -> anyhow::Result<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .with_context(|| format!("patching {name} with {patch}"))
}

pub(crate) async fn delete<K>(api: &Api<K>, name: &str, how: &DeleteParams) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let deleted = api.delete(name, how).await;
    deleted
        .map(drop)
        .with_context(|| format!("deleting {name}"))
}

/// Removes the finalizers of an object.
pub(crate) async fn release<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let none = json!({"metadata": {"finalizers": null}});
    patch(api, name, none).await.map(drop)
}

/// Waits until an object satisfies a predicate.
pub(crate) async fn until<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    is: impl Fn(&K) -> bool,
) -> anyhow::Result<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Serialize,
{
    testkit::until(api, name, what, WAIT_TIMEOUT, is).await
}

pub(crate) async fn present<K>(api: &Api<K>, name: &str) -> anyhow::Result<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Serialize,
{
    until(api, name, "is there", |_| true).await
}

/// Waits until an object is gone.
pub(crate) async fn gone<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    testkit::until_gone(api, name, WAIT_TIMEOUT).await
}
