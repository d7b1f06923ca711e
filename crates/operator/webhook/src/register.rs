//! Registration of the webhooks.

use std::str::FromStr;

use api::advisor::{GROUP, PLURAL, VERSION, WEBHOOK};
use base64::Engine as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, Client};
use runtime::{Absent as _, Key, Writer};
use serde_json::{Value, json};
use url::Url;

use crate::error::Error;
use crate::images::{Kind, Layer};
use crate::{PATH, cpu, placement};

/// Field manager of the registrations.
pub(crate) const FIELD_MANAGER: &str = "medley-webhook";

/// Default namespace of Medley.
pub(crate) const DEFAULT_NAMESPACE: &str = "medley-system";

/// Address of the webhook for the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAddress {
    /// A URL.
    Url(String),
    /// A Service.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
        /// Port of the Service.
        port: u16,
    },
}

impl WebhookAddress {
    /// Subject alternative names that the certificate needs.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Url(url) => {
                let url = Url::parse(url).ok();
                let host = url.as_ref().and_then(Url::host_str);
                // An IPv6 address has brackets in a URL, but not in a certificate.
                let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
                host.into_iter().collect()
            }
            Self::Service {
                namespace, name, ..
            } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
            ],
        }
    }

    /// Namespace of the webhook.
    fn home(&self) -> &str {
        match self {
            Self::Url(_) => DEFAULT_NAMESPACE,
            Self::Service { namespace, .. } => namespace,
        }
    }

    /// The `clientConfig` for a path.
    fn client_config(&self, authority: &str, path: &str) -> Value {
        let bundle = base64::engine::general_purpose::STANDARD.encode(authority);
        match self {
            Self::Url(url) => {
                let host = url.strip_suffix(PATH).unwrap_or(url);
                json!({ "url": format!("{host}{path}"), "caBundle": bundle })
            }
            Self::Service {
                namespace,
                name,
                port,
            } => json!({
                "service": { "namespace": namespace, "name": name, "port": port, "path": path },
                "caBundle": bundle,
            }),
        }
    }
}

/// `url=https://HOST[:PORT]` or `service=NAMESPACE/NAME[:PORT]`.
impl FromStr for WebhookAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Address(text.to_owned());
        if let Some(url) = text.strip_prefix("url=") {
            let mut url = Url::parse(url).map_err(|_| wrong())?;
            // As validated by the API server: https, without user, query or fragment.
            let plain = url.scheme() == "https"
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none();
            if !plain || !matches!(url.path(), "" | "/" | PATH) {
                return Err(wrong());
            }
            url.set_path(PATH);
            return Ok(Self::Url(url.into()));
        }
        let service = text.strip_prefix("service=").ok_or_else(wrong)?;
        let (namespace, name) = service.split_once('/').ok_or_else(wrong)?;
        let (name, port) = match name.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
            None => (name, 443),
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') || port == 0 {
            return Err(wrong());
        }
        Ok(Self::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        })
    }
}

/// Registers the approval webhook.
///
/// `authority` is the CA in PEM.
pub async fn register(
    client: &Client,
    authority: &str,
    webhook_address: &WebhookAddress,
) -> Result<(), Error> {
    let registration = WebhookRegistration {
        name: format!("approval.{GROUP}"),
        rule: json!({
            "apiGroups": [GROUP],
            "apiVersions": [VERSION],
            "resources": [PLURAL],
            "scope": "Cluster",
        }),
        ..WebhookRegistration::changes("Fail", 10)
    };
    apply(
        client,
        WEBHOOK,
        vec![registration.webhook(authority, webhook_address)],
    )
    .await
}

/// Registers the webhooks of these image layers.
///
/// They fail open: the controllers report invalid objects later.
pub(crate) async fn register_images(
    client: &Client,
    authority: &str,
    webhook_address: &WebhookAddress,
    layers: &[Layer],
) -> Result<(), Error> {
    let webhooks = layers.iter().map(|layer| {
        let kind = layer.kind();
        let registration = WebhookRegistration {
            name: format!("{}.images.medley.dev", name_of(&kind)),
            rule: json!({
                "apiGroups": [kind.group],
                "apiVersions": kind.versions,
                "resources": kind.plurals,
                "scope": "Namespaced",
            }),
            ..WebhookRegistration::changes("Ignore", 5)
        };
        registration.webhook(authority, webhook_address)
    });
    apply(client, api::golden::WEBHOOK, webhooks.collect()).await
}

/// Registers the webhooks for CPU models.
///
/// Requests that would do lasting damage without an answer fail closed, and KubeVirt retries them: a pod that no node
/// can run, and an instance handed over without its model. The others fail open.
///
/// `by_default` is whether VMs without a model get `best-match-model`.
pub(crate) async fn register_cpu_models(
    client: &Client,
    authority: &str,
    webhook_address: &WebhookAddress,
    by_default: bool,
) -> Result<(), Error> {
    let webhooks = cpu::webhooks(by_default).into_iter();
    let webhooks = webhooks.map(|registration| registration.webhook(authority, webhook_address));
    apply(client, api::cpu::WEBHOOK, webhooks.collect()).await
}

/// How the registration for CPU models differs from the one that [`register_cpu_models`] writes, apart from address and
/// CA; `None` if it does not.
pub(crate) async fn cpu_models_differ(
    client: &Client,
    webhook_address: &WebhookAddress,
    by_default: bool,
) -> Result<Option<String>, Error> {
    let name = api::cpu::WEBHOOK;
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let found = api.get(name).await.not_found_as_none();
    let found = found.map_err(runtime::Error::api(format!(
        "getting MutatingWebhookConfiguration {name}"
    )))?;
    let Some(found) = found else {
        return Ok(Some(format!("MutatingWebhookConfiguration {name} is gone")));
    };
    let found = serde_json::to_value(&found.webhooks).unwrap_or_default();
    let found: Vec<&Value> = found.as_array().into_iter().flatten().collect();
    let webhooks = cpu::webhooks(by_default).into_iter();
    // Another address or CA is that of a webhook that is replaced or replaces this one: `registered` reports it.
    let mut webhooks = webhooks.map(|it| it.webhook("", webhook_address));
    Ok(webhooks.find_map(|webhook| difference(&webhook, &found)))
}

/// How the registered webhook of this name differs, apart from address and CA.
fn difference(webhook: &Value, registered: &[&Value]) -> Option<String> {
    let name = &webhook["name"];
    let Some(same) = registered.iter().find(|it| it["name"] == *name) else {
        return Some(format!("webhook {name} is gone"));
    };
    let mut fields = webhook.as_object().into_iter().flatten();
    let differs = |(field, value): &(&String, &Value)| {
        *field != "clientConfig" && same[field.as_str()] != **value
    };
    let (field, _) = fields.find(differs)?;
    Some(format!("{field} of webhook {name} was changed"))
}

/// Registers the placement webhook with what the PlacementPolicies say about it.
pub(crate) async fn register_placement(
    client: &Client,
    authority: &str,
    webhook_address: &WebhookAddress,
    registered: &placement::Registered,
) -> Result<(), Error> {
    let registration = placement::webhook(registered, webhook_address.home());
    let registration = registration.webhook(authority, webhook_address);
    apply(client, api::placement::WEBHOOK, vec![registration]).await
}

/// The resource that names the webhook of a layer.
fn name_of(kind: &Kind) -> &'static str {
    kind.plurals.first().copied().unwrap_or_default()
}

/// A webhook to register.
pub(crate) struct WebhookRegistration {
    pub(crate) name: String,
    /// Path of `clientConfig`.
    pub(crate) path: &'static str,
    /// Resources.
    pub(crate) rule: Value,
    /// Operations; CREATE and UPDATE by default.
    pub(crate) operations: &'static [&'static str],
    /// `objectSelector`; null for all.
    pub(crate) objects: Value,
    /// `namespaceSelector`; null for all.
    pub(crate) namespaces: Value,
    /// `matchConditions`.
    pub(crate) conditions: Vec<Value>,
    /// Whether to reinvoke after another webhook changed the object.
    pub(crate) reinvoke: bool,
    pub(crate) failure_policy: &'static str,
    pub(crate) seconds: u8,
}

impl WebhookRegistration {
    /// A webhook for CREATE and UPDATE.
    pub(crate) fn changes(failure_policy: &'static str, seconds: u8) -> Self {
        Self {
            name: String::new(),
            path: PATH,
            rule: Value::Null,
            operations: &["CREATE", "UPDATE"],
            objects: Value::Null,
            namespaces: Value::Null,
            conditions: Vec::new(),
            reinvoke: false,
            failure_policy,
            seconds,
        }
    }

    /// Most webhooks are not reinvoked: approvals must be seen once, as the user sent them, before this webhook turns
    /// them into a record.
    fn webhook(mut self, authority: &str, webhook_address: &WebhookAddress) -> Value {
        self.rule["operations"] = json!(self.operations);
        let mut webhook = json!({
            "name": self.name,
            "clientConfig": webhook_address.client_config(authority, self.path),
            "rules": [self.rule],
            "failurePolicy": self.failure_policy,
            // So that a request for another version of the same resource is converted and sent as well; `Exact` would
            // let `v1beta1` bypass the webhook.
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": if self.reinvoke { "IfNeeded" } else { "Never" },
            // True only because decisions are in the response. It is what allows `kubectl --dry-run=server` and the
            // dry runs of governance to pass through this webhook.
            "sideEffects": "None",
            "timeoutSeconds": self.seconds,
            "admissionReviewVersions": ["v1"],
        });
        // Always, as the API server defaults them: a selector that another manager adds could not be undone otherwise.
        for (field, selector) in [
            ("objectSelector", self.objects),
            ("namespaceSelector", self.namespaces),
        ] {
            webhook[field] = if selector.is_null() {
                json!({})
            } else {
                selector
            };
        }
        if !self.conditions.is_empty() {
            webhook["matchConditions"] = self.conditions.into();
        }
        webhook
    }
}

/// Why the API server would not call this webhook, by the registrations of these names; `None` if it would.
pub(crate) async fn registered(
    client: &Client,
    names: &[&'static str],
    authority: &str,
    webhook_address: &WebhookAddress,
) -> Result<Option<String>, Error> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    for name in names {
        let found = api
            .get(name)
            .await
            .not_found_as_none()
            .map_err(runtime::Error::api(format!(
                "getting MutatingWebhookConfiguration {name}"
            )))?;
        let Some(found) = found else {
            return Ok(Some(format!("MutatingWebhookConfiguration {name} is gone")));
        };
        let mut hooks = found.webhooks.into_iter().flatten();
        let wrong = hooks.find_map(|hook| {
            let is = serde_json::to_value(&hook.client_config).unwrap_or_default();
            let path = is["service"]["path"]
                .as_str()
                .map(str::to_owned)
                .or_else(|| {
                    let url = Url::parse(is["url"].as_str()?).ok()?;
                    Some(url.path().to_owned())
                });
            let wanted =
                webhook_address.client_config(authority, path.as_deref().unwrap_or_default());
            // The CA first: the whole `clientConfig` would differ too, but "another address" would send the
            // administrator in the wrong direction.
            if is["caBundle"] != wanted["caBundle"] {
                let hook = hook.name;
                return Some(format!("webhook {hook} of {name} trusts another CA"));
            }
            (is != wanted).then(|| format!("webhook {} of {name} has another address", hook.name))
        });
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

async fn apply(client: &Client, name: &str, webhooks: Vec<Value>) -> Result<(), Error> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": name },
        "webhooks": webhooks,
    });
    let writer = Writer::new(api, FIELD_MANAGER);
    writer.apply(&Key::new("", name), &configuration).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn edits_of_a_registered_webhook_are_found() {
        let webhook = json!({
            "name": "a", "timeoutSeconds": 5, "clientConfig": { "url": "https://a" },
            "matchConditions": [{ "name": "c", "expression": "true" }], "objectSelector": {},
        });
        let same = webhook.clone();
        assert_eq!(difference(&webhook, &[&same]), None);
        assert!(difference(&webhook, &[]).is_some());
        for (field, value, is_edit) in [
            ("timeoutSeconds", json!(30), true),
            ("matchConditions", json!(null), true),
            (
                "objectSelector",
                json!({ "matchLabels": { "a": "b" } }),
                true,
            ),
            ("clientConfig", json!({ "url": "https://b" }), false),
        ] {
            let mut edited = webhook.clone();
            edited[field] = value;
            let found = difference(&webhook, &[&edited]);
            assert_eq!(found.is_some(), is_edit, "{found:?}");
            assert!(found.is_none_or(|it| it.contains(field)));
        }
    }

    fn service(port: u16) -> WebhookAddress {
        WebhookAddress::Service {
            namespace: "medley-system".to_owned(),
            name: "webhook".to_owned(),
            port,
        }
    }

    #[rstest]
    #[case(
        "service=medley-system/webhook",
        service(443),
        "webhook.medley-system.svc"
    )]
    #[case(
        "service=medley-system/webhook:9443",
        service(9443),
        "webhook.medley-system.svc"
    )]
    #[case(
        "url=https://10.1.2.3:9443",
        WebhookAddress::Url("https://10.1.2.3:9443/admit".to_owned()),
        "10.1.2.3"
    )]
    #[case(
        "url=https://[::1]:9443/",
        WebhookAddress::Url("https://[::1]:9443/admit".to_owned()),
        "::1"
    )]
    fn addresses_are_parsed_into_certificate_names(
        #[case] text: &str,
        #[case] expected: WebhookAddress,
        #[case] name: &str,
    ) {
        let webhook_address: WebhookAddress = text.parse().unwrap();
        assert_eq!(webhook_address, expected);
        assert!(
            webhook_address.names().contains(&name.to_owned()),
            "{:?}",
            webhook_address.names()
        );
    }

    #[rstest]
    fn other_addresses_are_rejected(
        #[values(
            "",
            "webhook",
            "service=webhook",
            "service=/webhook",
            "service=a/b/c",
            "service=a/b:0",
            "service=a/b:x",
            "url=",
            "url=http://a",
            "url=https://a/elsewhere",
            "url=https://me@a",
            "url=https://a?x=y"
        )]
        text: &str,
    ) {
        let error = text.parse::<WebhookAddress>().unwrap_err().to_string();
        assert!(error.contains("service=NAMESPACE/NAME"), "{error}");
    }
}
