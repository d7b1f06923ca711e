//! What has to run once Medley is installed: namespace, rights, operator, leader, and admission.

use base64::Engine as _;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use manifests::{ACCOUNT, Job, LEASE, WEBHOOK};

use super::super::facts::{Account, Facts, Seen};
use super::{Finding, State, listed};

const RIGHTS: &str = "Rights";
const OPERATOR: &str = "Operator";
const ADMISSION: &str = "Admission";

/// A lease that was not renewed for so many times its length is nobody's. Clocks need not agree, but nearly.
const STALE: i32 = 4;

fn namespace(facts: &Facts) -> Finding {
    let title = format!("namespace {} is there", facts.namespace);
    let finding = |state| Finding::new("namespace", OPERATOR, title.clone(), state);
    match &facts.namespace_exists {
        Ok(true) => finding(State::Ok),
        Ok(false) => finding(State::Failed).says("it is not").hint(
            "medley manifests | kubectl apply --server-side -f -; or name another with --namespace",
        ),
        Err(why) => Finding::unseen("namespace", OPERATOR, title.clone(), why),
    }
}

pub(super) fn rights(facts: &Facts) -> Vec<Finding> {
    let accounts = facts.accounts.iter();
    accounts
        .flat_map(|account| [enough(account), no_more(account)])
        .collect()
}

fn enough(account: &Account) -> Finding {
    let title = format!("{} may do what its jobs take", account.name);
    let finding = |state| Finding::new("rights", RIGHTS, title.clone(), state);
    match &account.missing {
        Ok(missing) if missing.is_empty() => finding(State::Ok),
        Ok(missing) => finding(State::Failed)
            .says(format!("it may not {}", listed(missing)))
            .hint("medley manifests --only rbac | kubectl apply --server-side -f -; with --controllers, if others run"),
        Err(why) => Finding::unseen("rights", RIGHTS, title.clone(), why),
    }
}

fn no_more(account: &Account) -> Finding {
    let title = format!("{} may do no more", account.name);
    let finding = |state| Finding::new("rights-surplus", RIGHTS, title.clone(), state);
    match &account.surplus {
        Ok(surplus) if surplus.is_empty() => finding(State::Ok),
        Ok(surplus) => finding(State::Warning)
            .says(listed(surplus))
            .hint("delete the bindings, unless you made them on purpose"),
        Err(why) => Finding::unseen("rights-surplus", RIGHTS, title.clone(), why),
    }
}

pub(super) fn operator(facts: &Facts) -> Vec<Finding> {
    let deployment = deployment("operator", OPERATOR, ACCOUNT, &facts.operator, facts);
    vec![namespace(facts), deployment, lease(facts)]
}

fn deployment(
    id: &'static str,
    group: &'static str,
    name: &str,
    there: &Seen<Option<Deployment>>,
    facts: &Facts,
) -> Finding {
    let title = format!("Deployment {name} is available");
    let finding = |state| Finding::new(id, group, title.clone(), state);
    let there = match there {
        Err(why) => return Finding::unseen(id, group, title.clone(), why),
        Ok(None) => {
            return finding(State::Failed)
                .says(format!("it is not in namespace {}", facts.namespace))
                .hint("medley manifests | kubectl apply --server-side -f -; or name another with --namespace");
        }
        Ok(Some(there)) => there,
    };
    let wanted = there.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let status = there.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or_default();
    let says = format!("{available} of {wanted} are available, {updated} are as they should be");
    let look = format!(
        "kubectl -n {} describe pods -l app.kubernetes.io/name={name}",
        facts.namespace
    );
    if available >= wanted && updated >= wanted && wanted > 0 {
        finding(State::Ok).says(format!("{available} of {wanted}"))
    } else if available > 0 {
        finding(State::Warning).says(says).hint(look)
    } else {
        finding(State::Failed).says(says).hint(look)
    }
}

fn lease(facts: &Facts) -> Finding {
    let title = format!("lease {LEASE} is held");
    let finding = |state| Finding::new("lease", OPERATOR, title.clone(), state);
    let logs = format!("kubectl -n {} logs deployment/{ACCOUNT}", facts.namespace);
    match &facts.lease {
        Err(why) => Finding::unseen("lease", OPERATOR, title.clone(), why),
        Ok(None) => finding(State::Failed)
            .says("it is not there: no operator has led yet")
            .hint(logs),
        Ok(Some(lease)) => match held(lease, facts) {
            Ok(holder) => finding(State::Ok).says(format!("by {holder}")),
            Err(why) => finding(State::Failed).says(why).hint(logs),
        },
    }
}

/// Who holds a lease, or why nobody does.
fn held(lease: &LeaseSpec, facts: &Facts) -> Result<String, String> {
    let holder = lease.holder_identity.clone().unwrap_or_default();
    if holder.is_empty() {
        return Err("it was given back, and nobody has taken it".to_owned());
    }
    let renewed = lease.renew_time.as_ref().map(|it| it.0);
    let Some(renewed) = renewed else {
        return Err(format!("{holder} has never renewed it"));
    };
    let lasts = lease
        .lease_duration_seconds
        .unwrap_or(15)
        .saturating_mul(STALE);
    let age = facts.now.duration_since(renewed);
    if age > SignedDuration::from_secs(lasts.into()) {
        return Err(format!(
            "{holder} has not renewed it for {}",
            machinery::time::human_duration(age)
        ));
    }
    Ok(holder)
}

pub(super) fn admission(facts: &Facts) -> Vec<Finding> {
    if !facts.jobs.iter().any(|job| Job::CHECKED.contains(job)) {
        return Vec::new();
    }
    let mut findings = vec![deployment(
        "webhook",
        ADMISSION,
        WEBHOOK,
        &facts.webhook,
        facts,
    )];
    for (name, there) in &facts.registrations {
        findings.push(registration(name, there, facts));
    }
    for (service, ready) in &facts.endpoints {
        let title = format!("Service {service} has somebody who answers");
        let finding = |state| Finding::new("webhook-endpoints", ADMISSION, title.clone(), state);
        findings.push(match ready {
            Ok(0) => finding(State::Failed)
                .says("no endpoint is ready: the API server refuses what has to be checked")
                .hint(format!(
                    "kubectl -n {} get pods,endpointslices -l app.kubernetes.io/name={WEBHOOK}",
                    facts.namespace
                )),
            Ok(count) => finding(State::Ok).says(format!("{count} ready")),
            Err(why) => Finding::unseen("webhook-endpoints", ADMISSION, title.clone(), why),
        });
    }
    findings
}

fn registration(
    name: &str,
    there: &Seen<Option<MutatingWebhookConfiguration>>,
    facts: &Facts,
) -> Finding {
    let title = format!("the API server is told to ask: {name}");
    let finding = |state| Finding::new("registrations", ADMISSION, title.clone(), state);
    let logs = format!("kubectl -n {} logs deployment/{WEBHOOK}", facts.namespace);
    let hooks = match there {
        Err(why) => return Finding::unseen("registrations", ADMISSION, title.clone(), why),
        Ok(None) => {
            return finding(State::Failed)
                .says("there is no such MutatingWebhookConfiguration; the check makes it when it starts")
                .hint(logs);
        }
        Ok(Some(there)) => there.webhooks.as_deref().unwrap_or_default(),
    };
    if hooks.is_empty() {
        return finding(State::Failed).says("it has no webhooks").hint(logs);
    }
    match hooks.iter().find(|hook| !has_authority(hook)) {
        Some(hook) => finding(State::Failed)
            .says(format!(
                "{} names no authority that could be trusted",
                hook.name
            ))
            .hint("restart the check, or see what keeps its caBundle"),
        None => finding(State::Ok).says(format!("{} webhooks", hooks.len())),
    }
}

/// Whether a certificate is named that the API server can trust.
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
