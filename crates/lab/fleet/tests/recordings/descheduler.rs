//! The descheduler operator.

#[path = "../../recordings/descheduler/story.rs"]
mod story;

use fleet::operators::{self, DeschedulerRelease, Installed, names};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, Patch};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::Manager;
use serde_json::json;
use testkit::recording::{LeftOut, recording};
use testkit::{TestCluster, by};

/// What the descheduler reads, and what protects and watches it, is not simulated. The genuine operator scales by the
/// subresource, which leaves the field to no manager, and writes an override that is null.
const LEFT_OUT: [LeftOut; 13] = [
    whole("ClusterRole *"),
    whole("ClusterRoleBinding *"),
    whole("ConfigMap *"),
    whole("PrometheusRule *"),
    whole("Role *"),
    whole("RoleBinding *"),
    whole("Service *"),
    whole("ServiceAccount *"),
    whole("ServiceMonitor *"),
    whole("ValidatingAdmissionPolicy *"),
    whole("ValidatingAdmissionPolicyBinding *"),
    of_configuration("spec.unsupportedConfigOverrides"),
    LeftOut {
        object: "Deployment openshift-kube-descheduler-operator/descheduler",
        field: "spec.replicas",
    },
];

const fn whole(object: &'static str) -> LeftOut {
    LeftOut { object, field: "" }
}

const fn of_configuration(field: &'static str) -> LeftOut {
    LeftOut {
        object: "KubeDescheduler openshift-kube-descheduler-operator/cluster",
        field,
    }
}

struct Lab {
    client: Client,
}

impl story::Stage for Lab {
    async fn set_psi(&mut self, enabled: bool) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let value = enabled.then_some("true");
        let patch = json!({ "metadata": { "annotations": { names::PSI: value } } });
        let patch = Patch::Merge(patch);
        nodes.patch("worker-1", &by(story::MANAGER), &patch).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn descheduler_operator_writes_what_is_recorded() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = cluster.client();
    let installed = Installed {
        descheduler: Some(DeschedulerRelease::Current),
        monitoring: true,
        ..Installed::default()
    };
    operators::install(&client, &installed).await?;
    // The story publishes Prometheus itself.
    let route = GroupVersionKind::gvk("route.openshift.io", "v1", "Route");
    let route = ApiResource::from_gvk(&route);
    let routes: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), names::MONITORING_NAMESPACE, &route);
    let gone = DeleteParams::default();
    routes.delete(names::PROMETHEUS_ROUTE, &gone).await?;

    let story = story::Story::prepare(client.clone()).await?;
    let manager = Manager::new(client.clone());
    operators::start(&manager, client.clone(), 1.0).await;
    let trace = story.play(&mut Lab { client }).await?.finish();
    trace.assert_imitates(&recording(story::RECORDING), &LEFT_OUT)
}
