//! RBAC checks: of the current user, and of the service accounts of an installation.

use std::collections::BTreeSet;

use api::rbac::questions;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use governance::roles::operator_namespace_rules;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use manifests::{
    ACCOUNT, IMPORTER_ROLE, Job, NAMED_SECRETS, OPENSHIFT_CONFIG, Options, PLACEMENT_LEASE,
    PullSecrets, RELEASE_OWNER, RELEASE_PAYLOADS, WEBHOOK, callers_role, job_role, objects, plural,
    profile_role, pull_secret_role, webhook_role,
};
use placement::roles::{named_secret_rules, webhook_namespace_rules};
use runtime::access::{described, may};
use serde::de::DeserializeOwned;

use super::super::inputs::{Account, Observed};
use super::observed;

/// SelfSubjectAccessReviews and SubjectAccessReviews in flight.
// An installation asks some hundred questions. One at a time takes many seconds over a slow link,
// and all at once would meet the client's or the API server's rate limit.
const CONCURRENT_REVIEWS: usize = 8;
/// Label of objects owned by OLM, which grants exactly the permissions of the bundle under
/// generated names.
const OLM: &str = "olm.owner";

/// Permissions needed to install that the current user lacks, and whether they may `escalate`.
pub(super) async fn to_install(
    client: &Client,
    options: &Options,
) -> anyhow::Result<(Observed<Vec<String>>, Observed<bool>)> {
    let mut wanted = BTreeSet::new();
    for object in objects(options)? {
        let api_version = object.value["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = object.value["kind"].as_str().unwrap_or_default();
        let namespace = object.value["metadata"]["namespace"].as_str();
        wanted.insert((group.to_owned(), plural(kind), namespace.map(str::to_owned)));
    }
    let wanted = wanted.into_iter().flat_map(|(group, plural, namespace)| {
        // The verbs that server-side apply uses.
        ["get", "create", "patch"].map(|verb| ResourceAttributes {
            group: Some(group.clone()),
            resource: Some(plural.clone()),
            verb: Some(verb.to_owned()),
            namespace: namespace.clone(),
            ..ResourceAttributes::default()
        })
    });
    let escalate = ResourceAttributes {
        group: Some("rbac.authorization.k8s.io".to_owned()),
        resource: Some("clusterroles".to_owned()),
        verb: Some("escalate".to_owned()),
        ..ResourceAttributes::default()
    };
    let missing = missing(wanted.collect(), async |what| {
        observed(may_i(client, what).await)
    });
    Ok((missing.await, observed(may_i(client, escalate).await)))
}

async fn may_i(client: &Client, what: ResourceAttributes) -> Result<bool, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(what),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// RBAC of the service accounts of an installation: missing permissions and surplus bindings.
pub(super) async fn of_accounts(
    client: &Client,
    options: &Options,
) -> anyhow::Result<Vec<Account>> {
    let mut roles = Vec::new();
    for job in &options.jobs {
        roles.push(job_role(*job)?);
    }
    for profile in &options.profiles {
        roles.extend(profile_role(profile)?);
    }
    let mut checks: Vec<_> = options
        .jobs
        .iter()
        .filter_map(|it| webhook_role(*it))
        .collect();
    if options.jobs.contains(&Job::Placement) && options.pull_secrets == PullSecrets::Pods {
        roles.push(pull_secret_role(ACCOUNT));
        checks.push(pull_secret_role(WEBHOOK));
    }
    if !checks.is_empty() {
        checks.push(callers_role());
    }
    let home = options.namespace.as_str();
    let mut places = vec![(home.to_owned(), operator_namespace_rules())];
    if options.release_payloads {
        let jobs = options.jobs.iter();
        let rules = jobs.flat_map(|job| job.namespaced_rules());
        places.extend(rules.map(|(namespace, rules)| (namespace.to_owned(), rules)));
    }
    let mut named = named_secrets(options);
    // An optional part, although `--openshift` adds it: without it, certificates are missing, and nothing else.
    let reads_registries = options.jobs.iter().any(|job| Job::REGISTRIES.contains(job));
    if options.openshift_config && reads_registries {
        let namespace = api::openshift::CONFIG_NAMESPACE.to_owned();
        named.push((namespace, api::rbac::read_network_authorities()));
    }
    places.extend(named.iter().cloned());
    let mut of_webhook = named;
    if options.jobs.contains(&Job::Placement) {
        of_webhook.push((home.to_owned(), webhook_namespace_rules()));
    }
    let mut accounts = vec![account(client, options, ACCOUNT, roles, places).await];
    if !checks.is_empty() {
        accounts.push(account(client, options, WEBHOOK, checks, of_webhook).await);
    }
    Ok(accounts)
}

/// Rules that let both accounts read the pull secrets named in policies, by namespace.
fn named_secrets(options: &Options) -> Vec<(String, Vec<PolicyRule>)> {
    let PullSecrets::Named(named) = &options.pull_secrets else {
        return Vec::new();
    };
    let places = named.iter().map(|(namespace, names)| {
        let names: Vec<String> = names.iter().cloned().collect();
        (namespace.clone(), named_secret_rules(&names))
    });
    places.collect()
}

async fn account(
    client: &Client,
    options: &Options,
    name: &'static str,
    roles: Vec<ClusterRole>,
    places: Vec<(String, Vec<PolicyRule>)>,
) -> Account {
    let namespace = options.namespace.as_str();
    let who = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{name}")),
        // As the authenticator would add them; a review does not look them up, and permissions
        // granted to a group would seem to be missing.
        groups: Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]),
        ..SubjectAccessReviewSpec::default()
    };
    // Roles of several jobs share rules.
    let mut expected: BTreeSet<String> = roles.iter().map(ResourceExt::name_any).collect();
    expected.extend([
        name.to_owned(),
        // Optional roles are never surplus: whether they are granted is a choice of the user, which
        // the arguments of the Deployment do not show.
        RELEASE_OWNER.to_owned(),
        RELEASE_PAYLOADS.to_owned(),
        NAMED_SECRETS.to_owned(),
        format!("{ACCOUNT}-cluster-operator"),
        OPENSHIFT_CONFIG.to_owned(),
        IMPORTER_ROLE.to_owned(),
    ]);
    if options.jobs.contains(&Job::Placement) {
        expected.insert(PLACEMENT_LEASE.to_owned());
    }
    let everywhere: Vec<PolicyRule> = roles
        .into_iter()
        .filter_map(|it| it.rules)
        .flatten()
        .collect();
    let mut wanted: Vec<ResourceAttributes> = Vec::new();
    let there = places.iter();
    let there = there.flat_map(|(namespace, rules)| questions(rules, Some(namespace.as_str())));
    let all = questions(&everywhere, None).chain(there);
    for question in all {
        if !wanted.contains(&question) {
            wanted.push(question);
        }
    }
    Account {
        name,
        missing: missing(wanted, async |what| {
            let answer = may(client, &who, what).await;
            answer.map_err(|error| error.to_string())
        })
        .await,
        surplus: surplus(client, namespace, name, &expected).await,
    }
}

/// The requests that are not allowed.
async fn missing(
    wanted: Vec<ResourceAttributes>,
    ask: impl AsyncFn(ResourceAttributes) -> Observed<bool>,
) -> Observed<Vec<String>> {
    let ask = &ask;
    let answers = wanted.into_iter().map(|what| async move {
        let place = what.namespace.clone();
        let place = place.map(|it| format!(" in {it}")).unwrap_or_default();
        let words = format!("{}{place}", described(&what));
        ask(what).await.map(|allowed| (!allowed).then_some(words))
    });
    // In order, so that two runs report the same text.
    let answers = stream::iter(answers).buffered(CONCURRENT_REVIEWS);
    let found: Vec<Option<String>> = answers.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Bindings of an account to roles that none of the running jobs needs.
async fn surplus(
    client: &Client,
    namespace: &str,
    account: &str,
    expected: &BTreeSet<String>,
) -> Observed<Vec<String>> {
    let is_ours = |subjects: Option<&Vec<Subject>>| {
        subjects.into_iter().flatten().any(|subject| {
            subject.kind == "ServiceAccount"
                && subject.name == account
                && subject.namespace.as_deref() == Some(namespace)
        })
    };
    let is_surplus = |subjects: Option<&Vec<Subject>>, meta: &ObjectMeta, role: &RoleRef| {
        let of_olm = meta.labels.as_ref().is_some_and(|it| it.contains_key(OLM));
        is_ours(subjects) && !of_olm && !expected.contains(&role.name)
    };
    let mut found = Vec::new();
    for it in all::<ClusterRoleBinding>(client).await? {
        let role = &it.role_ref;
        if is_surplus(it.subjects.as_ref(), &it.metadata, role) {
            let (name, kind) = (it.name_any(), &role.kind);
            found.push(format!(
                "ClusterRoleBinding {name} gives {kind} {}",
                role.name
            ));
        }
    }
    for it in all::<RoleBinding>(client).await? {
        let role = &it.role_ref;
        if is_surplus(it.subjects.as_ref(), &it.metadata, role) {
            let name = format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any());
            found.push(format!(
                "RoleBinding {name} gives {} {}",
                role.kind, role.name
            ));
        }
    }
    Ok(found)
}

async fn all<K>(client: &Client) -> Observed<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    Ok(observed(api.list(&ListParams::default()).await)?.items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_installed_kind_has_its_plural() {
        let known = [
            "namespaces",
            "customresourcedefinitions",
            "serviceaccounts",
            "clusterroles",
            "clusterrolebindings",
            "roles",
            "rolebindings",
            "deployments",
            "poddisruptionbudgets",
            "services",
            "networkpolicies",
            "configmaps",
            "servicemonitors",
            "prometheusrules",
        ];
        let options = Options {
            monitoring: true,
            console: true,
            ..Options::default()
        };
        for object in objects(&options).unwrap() {
            let plural = plural(object.value["kind"].as_str().unwrap());
            assert!(known.contains(&plural.as_str()), "{plural}");
        }
    }
}
