//! Configures webhooks for one namespace, and waits until they are active.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use testkit::{TestCluster, WebhookServer, wait_until};

/// Informers of kube-apiserver need a while, more on a busy host.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Rules for all operations on config maps.
pub(crate) const RULES_MAPS: &str = "configmaps";

/// Webhooks for one namespace.
pub(crate) struct Hooks<'a> {
    cluster: &'a TestCluster,
    server: &'a WebhookServer,
    probe: WebhookServer,
    /// The selected namespace.
    pub(crate) namespace: String,
}

impl<'a> Hooks<'a> {
    pub(crate) async fn new(
        cluster: &'a TestCluster,
        server: &'a WebhookServer,
        name: &str,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            cluster,
            server,
            probe: WebhookServer::start(|_, _| testkit::Reply::deny("probe")).await?,
            namespace: cluster.namespace(name).await?,
        })
    }

    /// Path of the config maps of the namespace.
    pub(crate) fn maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// A webhook for `resources` (comma separated, with their group before a colon) at a path of its
    /// own.
    pub(crate) fn hook(&self, name: &str, resources: &str, more: Value) -> Value {
        let client = self.server.client_config(&format!("/{name}"));
        self.hook_at(name, resources, client, more)
    }

    /// A webhook with another client configuration.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`json!` in calls reads better"
    )]
    pub(crate) fn hook_at(&self, name: &str, resources: &str, client: Value, more: Value) -> Value {
        let (group, resources) = resources.split_once(':').unwrap_or(("", resources));
        let resources: Vec<&str> = resources.split(',').collect();
        let mut hook = json!({
            "name": format!("{name}.example.com"),
            "clientConfig": client,
            "rules": [{"operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": resources}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "objectSelector": {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
        });
        if let (Some(hook), Value::Object(more)) = (hook.as_object_mut(), more) {
            hook.extend(more);
        }
        hook
    }

    /// A webhook that shows whether a configuration is active: it denies objects that name the configuration.
    fn probing(&self, configuration: &str) -> Value {
        let more = json!({"objectSelector": {"matchLabels": {"probe": configuration}}});
        let client = self.probe.client_config("/probe");
        self.hook_at("probe", "configmaps", client, more)
    }

    /// Creates a configuration and waits until it is active.
    pub(crate) async fn mutating(&self, name: &str, hooks: Vec<Value>) -> anyhow::Result<()> {
        self.configure("Mutating", name, hooks).await
    }

    /// The same for validating webhooks.
    pub(crate) async fn validating(&self, name: &str, hooks: Vec<Value>) -> anyhow::Result<()> {
        self.configure("Validating", name, hooks).await
    }

    async fn configure(&self, sort: &str, name: &str, mut hooks: Vec<Value>) -> anyhow::Result<()> {
        hooks.insert(0, self.probing(name));
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": format!("{sort}WebhookConfiguration"),
            "metadata": {"name": name},
            "webhooks": hooks,
        });
        let path = format!("{}/{}webhookconfigurations", GROUP, sort.to_lowercase());
        let (code, body, _) = ask(self.cluster, "POST", &path, &configuration).await?;
        anyhow::ensure!(code == 201, "{body}");
        self.wait(name, true).await
    }

    /// Deletes a configuration and waits until it is inactive.
    pub(crate) async fn remove(&self, name: &str) -> anyhow::Result<()> {
        for sort in ["mutating", "validating"] {
            let path = format!("{GROUP}/{sort}webhookconfigurations/{name}");
            ask(self.cluster, "DELETE", &path, &Value::Null).await?;
        }
        self.wait(name, false).await
    }

    async fn wait(&self, name: &str, counts: bool) -> anyhow::Result<()> {
        let mut probe = map("probe", json!({}));
        probe["metadata"]["labels"] = json!({"probe": name});
        let path = format!("{}?dryRun=All", self.maps());
        wait_until(
            &format!("{name} active: {counts}"),
            WAIT_TIMEOUT,
            || async {
                let (code, body, _) = ask(self.cluster, "POST", &path, &probe).await?;
                anyhow::ensure!(code < 500, "{body}");
                Ok(((code == 400) == counts).then_some(()))
            },
        )
        .await
    }
}

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A config map.
#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` in calls reads better"
)]
pub(crate) fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Sends a request; returns status code, body and headers.
pub(crate) async fn ask(
    cluster: &TestCluster,
    method: &str,
    path: &str,
    body: &Value,
) -> anyhow::Result<(u16, Value, HeaderMap)> {
    let kind = match method {
        "PATCH" if path.contains("force=") => "application/apply-patch+yaml",
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .header("user-agent", "webhooks")
        .body(bytes)
        .context("a request")?;
    let (parts, body) = cluster.request(request).await?.into_parts();
    let value = serde_json::from_slice(&body).unwrap_or_default();
    Ok((parts.status.as_u16(), value, parts.headers))
}

/// The warnings of a response.
pub(crate) fn warnings(headers: &HeaderMap) -> Vec<&str> {
    let all = headers.get_all("warning").iter();
    all.filter_map(|warning| warning.to_str().ok()).collect()
}
