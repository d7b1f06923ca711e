//! Checks of an installed Medley: namespace, RBAC, operator, leader election and admission.

use base64::Engine as _;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use manifests::{ACCOUNT, Job, LEASE, WEBHOOK};

use super::super::inputs::{Account, CheckInputs, Observed};
use super::{Check, Finding, State, listed};

const PERMISSIONS: &str = "Rights";
const OPERATOR: &str = "Operator";
const ADMISSION: &str = "Admission";
const INSTALL: &str =
    "medley manifests | kubectl apply --server-side -f -; or name another with --namespace";

/// A lease counts as abandoned when it was not renewed for this many lease durations. The margin
/// allows for clock skew between this host and the node of the leader.
const STALE: i32 = 4;

fn namespace(inputs: &CheckInputs) -> Finding {
    let title = format!("namespace {} exists", inputs.namespace);
    let check = Check::new("namespace", OPERATOR, title);
    match &inputs.namespace_exists {
        Ok(true) => check.ok(),
        Ok(false) => check.failed("it does not exist").hint(INSTALL),
        Err(why) => check.unreadable(why),
    }
}

pub(super) fn permissions(inputs: &CheckInputs) -> Vec<Finding> {
    let accounts = inputs.accounts.iter();
    accounts
        .flat_map(|account| [enough(account), no_more(account)])
        .collect()
}

fn enough(account: &Account) -> Finding {
    let title = format!(
        "{} has the permissions that its controllers need",
        account.name
    );
    let check = Check::new("rights", PERMISSIONS, title);
    match &account.missing {
        Ok(missing) if missing.is_empty() => check.ok(),
        Ok(missing) => check
            .failed(format!("it may not {}", listed(missing)))
            .hint("medley manifests --only rbac | kubectl apply --server-side -f -; with --controllers, if others run"),
        Err(why) => check.unreadable(why),
    }
}

fn no_more(account: &Account) -> Finding {
    let title = format!("{} has no further permissions", account.name);
    let check = Check::new("rights-surplus", PERMISSIONS, title);
    match &account.surplus {
        Ok(surplus) if surplus.is_empty() => check.ok(),
        Ok(surplus) => check
            .warning(listed(surplus))
            .hint("delete the bindings, unless you created them on purpose"),
        Err(why) => check.unreadable(why),
    }
}

pub(super) fn operator(inputs: &CheckInputs) -> Vec<Finding> {
    let deployment = deployment("operator", OPERATOR, ACCOUNT, &inputs.operator, inputs);
    vec![namespace(inputs), deployment, lease(inputs)]
}

fn deployment(
    id: &'static str,
    group: &'static str,
    name: &str,
    there: &Observed<Option<Deployment>>,
    inputs: &CheckInputs,
) -> Finding {
    let check = Check::new(id, group, format!("Deployment {name} is available"));
    let namespace = &inputs.namespace;
    let there = match there {
        Err(why) => return check.unreadable(why),
        Ok(None) => {
            let message = format!("it is not in namespace {namespace}");
            return check.failed(message).hint(INSTALL);
        }
        Ok(Some(there)) => there,
    };
    let wanted = there.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let status = there.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or_default();
    // Zero replicas are no success: the Deployment reports itself available, and nothing runs.
    if available >= wanted && updated >= wanted && wanted > 0 {
        return check.finding(State::Ok, format!("{available} of {wanted}"));
    }
    let message =
        format!("{available} of {wanted} replicas are available, {updated} are up to date");
    // With one available replica the operator works; it only has no standby.
    let state = match available {
        0 => State::Failed,
        _ => State::Warning,
    };
    check.finding(state, message).hint(format!(
        "kubectl -n {namespace} describe pods -l app.kubernetes.io/name={name}"
    ))
}

fn lease(inputs: &CheckInputs) -> Finding {
    let check = Check::new("lease", OPERATOR, format!("lease {LEASE} is held"));
    let logs = format!("kubectl -n {} logs deployment/{ACCOUNT}", inputs.namespace);
    match &inputs.lease {
        Err(why) => check.unreadable(why),
        Ok(None) => check
            .failed("it does not exist: no operator has led yet")
            .hint(logs),
        Ok(Some(lease)) => match held(lease, inputs) {
            Ok(holder) => check.finding(State::Ok, format!("by {holder}")),
            Err(why) => check.failed(why).hint(logs),
        },
    }
}

/// The holder of a lease, or why it has none.
fn held(lease: &LeaseSpec, inputs: &CheckInputs) -> Result<String, String> {
    let holder = lease.holder_identity.clone().unwrap_or_default();
    if holder.is_empty() {
        return Err("it was released, and no replica has acquired it".to_owned());
    }
    let renewed = lease.renew_time.as_ref().map(|it| it.0);
    let Some(renewed) = renewed else {
        return Err(format!("{holder} has never renewed it"));
    };
    let lasts = lease
        .lease_duration_seconds
        // The operator's own duration; the field is optional in the API.
        .unwrap_or(15)
        .saturating_mul(STALE);
    let age = inputs.now.duration_since(renewed);
    if age > SignedDuration::from_secs(lasts.into()) {
        return Err(format!(
            "{holder} has not renewed it for {}",
            machinery::time::human_duration(age)
        ));
    }
    Ok(holder)
}

pub(super) fn admission(inputs: &CheckInputs) -> Vec<Finding> {
    if !inputs.jobs.iter().any(|job| Job::CHECKED.contains(job)) {
        return Vec::new();
    }
    let webhook = &inputs.webhook;
    let mut findings = vec![deployment("webhook", ADMISSION, WEBHOOK, webhook, inputs)];
    for (name, there) in &inputs.registrations {
        findings.push(registration(name, there, inputs));
    }
    for (service, ready) in &inputs.endpoints {
        let title = format!("Service {service} has ready endpoints");
        let check = Check::new("webhook-endpoints", ADMISSION, title);
        findings.push(match ready {
            Ok(0) => check
                .failed(
                    "no endpoint is ready: the API server rejects objects that require admission",
                )
                .hint(format!(
                    "kubectl -n {} get pods,endpointslices -l app.kubernetes.io/name={WEBHOOK}",
                    inputs.namespace
                )),
            Ok(count) => check.finding(State::Ok, format!("{count} ready")),
            Err(why) => check.unreadable(why),
        });
    }
    findings
}

fn registration(
    name: &str,
    there: &Observed<Option<MutatingWebhookConfiguration>>,
    inputs: &CheckInputs,
) -> Finding {
    let title = format!("webhook configuration {name} is registered");
    let check = Check::new("registrations", ADMISSION, title);
    let logs = format!("kubectl -n {} logs deployment/{WEBHOOK}", inputs.namespace);
    let hooks = match there {
        Err(why) => return check.unreadable(why),
        Ok(None) => {
            let message = "there is no such MutatingWebhookConfiguration; the webhook creates it when it starts";
            return check.failed(message).hint(logs);
        }
        Ok(Some(there)) => there.webhooks.as_deref().unwrap_or_default(),
    };
    if hooks.is_empty() {
        return check.failed("it has no webhooks").hint(logs);
    }
    match hooks.iter().find(|hook| !has_authority(hook)) {
        Some(hook) => check
            .failed(format!("{} has no valid CA bundle", hook.name))
            .hint("restart the webhook, or find the manager that owns its caBundle"),
        None => check.finding(State::Ok, format!("{} webhooks", hooks.len())),
    }
}

/// Whether the webhook carries a CA bundle with a PEM certificate.
fn has_authority(hook: &MutatingWebhook) -> bool {
    let bundle = hook.client_config.ca_bundle.as_ref();
    bundle.is_some_and(|bundle| {
        let text = String::from_utf8_lossy(&bundle.0);
        let begin = "-----BEGIN CERTIFICATE-----";
        let end = "-----END CERTIFICATE-----";
        let body = text.split(begin).nth(1).and_then(|it| it.split(end).next());
        body.is_some_and(|body| {
            let body: String = body.split_whitespace().collect();
            let decoded = base64::engine::general_purpose::STANDARD.decode(body);
            decoded.is_ok_and(|it| !it.is_empty())
        })
    })
}
