//! Whether the admission webhook reliably records approvals.
//!
//! Approvals are annotations that the mutating webhook writes and guards. If the API server does not call it for every
//! write, anyone who can edit a configuration can forge approvals. So the registration has to match Medley's manifest
//! in every field that decides whether and which endpoint the API server calls.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::advisor::{GROUP, PLURAL, VERSION};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};

/// The name of the webhook that records approvals, within its `MutatingWebhookConfiguration`.
pub const WEBHOOK_NAME: &str = "approval.advisor.kubevirt.io";

/// The ConfigMap in Medley's namespace in which the webhook publishes its CA bundle. Its RBAC is separate from that of
/// webhook registrations, so that a user who can redirect the webhook cannot also publish the matching CA.
pub const AUTHORITY: &str = "medley-webhook-ca";
/// The key of the bundle, in PEM.
pub const AUTHORITY_KEY: &str = "ca.crt";

/// Whether recorded approvals are trustworthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorder {
    /// The API server calls the webhook for every write, and rejects writes if the call fails.
    Trusted,
    /// It may not, for this reason.
    Untrusted(String),
}

impl Recorder {
    /// Whether approvals are recorded.
    pub fn is_trusted(&self) -> bool {
        *self == Self::Trusted
    }
}

/// Compares the registration with Medley's manifest. `authority` is the CA bundle that the webhook published, if known.
pub fn verify(
    configuration: Option<&MutatingWebhookConfiguration>,
    authority: Option<&[u8]>,
) -> Recorder {
    let Some(configuration) = configuration else {
        return Recorder::Untrusted("the admission webhook is not registered".to_owned());
    };
    let mut webhooks = configuration.webhooks.iter().flatten();
    let Some(webhook) = webhooks.find(|webhook| webhook.name == WEBHOOK_NAME) else {
        return Recorder::Untrusted(format!(
            "the MutatingWebhookConfiguration has no webhook {WEBHOOK_NAME}"
        ));
    };
    match deviation(webhook, authority) {
        None => Recorder::Trusted,
        Some(why) => Recorder::Untrusted(format!("webhook {WEBHOOK_NAME}: {why}")),
    }
}

/// The first field of a webhook that would let writes pass unrecorded.
fn deviation(webhook: &MutatingWebhook, authority: Option<&[u8]>) -> Option<String> {
    // The API server's default is Fail (`SetDefaults_MutatingWebhook`).
    let failure_policy = webhook.failure_policy.as_deref().unwrap_or("Fail");
    if failure_policy != "Fail" {
        return Some(format!(
            "failurePolicy is {failure_policy}; Fail is needed, so that no write passes while it does not answer"
        ));
    }
    let selects =
        |selector: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>| {
            selector.as_ref().is_some_and(|selector| {
                selector
                    .match_labels
                    .as_ref()
                    .is_some_and(|labels| !labels.is_empty())
                    || selector
                        .match_expressions
                        .as_ref()
                        .is_some_and(|rules| !rules.is_empty())
            })
        };
    if selects(&webhook.object_selector) || selects(&webhook.namespace_selector) {
        return Some("a selector leaves objects out; none is accepted".to_owned());
    }
    if webhook
        .match_conditions
        .as_ref()
        .is_some_and(|conditions| !conditions.is_empty())
    {
        return Some("matchConditions leave requests out; none are accepted".to_owned());
    }
    for operation in ["CREATE", "UPDATE"] {
        if !webhook
            .rules
            .iter()
            .flatten()
            .any(|rule| covers(rule, operation))
        {
            return Some(format!(
                "no rule covers {operation} of {PLURAL}.{GROUP}/{VERSION}"
            ));
        }
    }
    let bundle = webhook
        .client_config
        .ca_bundle
        .as_ref()
        .map(|bundle| bundle.0.as_slice());
    // The address is not compared. An endpoint elsewhere cannot present a certificate of this authority, so the call
    // fails, and failurePolicy Fail rejects the write.
    match (bundle, authority) {
        (None | Some([]), _) => Some("caBundle is empty".to_owned()),
        (Some(bundle), Some(authority)) if !is_part_of(bundle, authority) => Some(
            "caBundle has a certificate that is not an authority which the webhook published"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether all certificates of a bundle are in another one. During a CA rotation, one of the two is ahead.
fn is_part_of(bundle: &[u8], published: &[u8]) -> bool {
    let blocks = |pem: &[u8]| -> BTreeSet<String> {
        let text = String::from_utf8_lossy(pem);
        let blocks = text.split(PEM_END).map(|block| block.trim().to_owned());
        blocks.filter(|block| !block.is_empty()).collect()
    };
    blocks(bundle).is_subset(&blocks(published))
}

/// The last line of a certificate in PEM.
const PEM_END: &str = "-----END CERTIFICATE-----";

fn covers(rule: &RuleWithOperations, operation: &str) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|one| one == "*" || one == wanted)
    };
    let scope = rule.scope.as_deref().unwrap_or("*");
    has(&rule.operations, operation)
        && has(&rule.api_groups, GROUP)
        && has(&rule.api_versions, VERSION)
        && has(&rule.resources, PLURAL)
        && matches!(scope, "*" | "Cluster")
}
