//! Service accounts and RBAC: a role for each job of the operator and the webhooks, and roles for
//! users.

use api::rbac::{cluster_role, only, rule};
use governance::profile::Profile;
use governance::{Registry, roles};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::{Value, json};

use crate::entry::{Entry, Fill, Part, When};
use crate::{
    ACCOUNT, AUTHORITY, CALLERS, CONSOLE_KEYS, Error, Job, NAMED_SECRETS, OPENSHIFT_CONFIG,
    PLACEMENT_LEASE, RELEASE_OWNER, RELEASE_PAYLOADS, WEBHOOK,
};

/// Profiles that an installation has to enable.
pub(crate) const SWITCHED_ON: [&str; 1] = ["node-health-remediation"];

const OPERATOR_FILE: &str = "rbac/operator.yaml";
const WEBHOOK_FILE: &str = "rbac/webhook.yaml";
const USERS_FILE: &str = "rbac/users.yaml";

/// The role of a job. Rules for optional profiles are in [roles of their own](profile_role).
pub fn job_role(job: Job) -> Result<ClusterRole, Error> {
    let all = Registry::standard(&SWITCHED_ON)?;
    let standard = all.iter().filter(|profile| is_standard(&***profile));
    let registry = Registry::new(standard.cloned().collect());
    Ok(cluster_role(
        &format!("{ACCOUNT}-{job}"),
        job.rules(&registry),
    ))
}

/// The additional role of the operator for an optional profile; `None` for a default profile.
pub fn profile_role(name: &str) -> Result<Option<ClusterRole>, Error> {
    let registry = Registry::standard(&[name])?;
    let wanted = registry.get(name).filter(|it| !is_standard(&***it));
    Ok(wanted.map(|profile| {
        let rules = roles::target_rules([&**profile]);
        cluster_role(&format!("{ACCOUNT}-{name}"), rules)
    }))
}

/// The role of the webhooks for a job; `None` if it has no webhook. The image layers share one.
pub fn webhook_role(job: Job) -> Option<ClusterRole> {
    let (name, rules) = match job {
        Job::Governance => (job.name(), roles::webhook_rules()),
        Job::CpuModels => (job.name(), cpu_models::roles::webhook_rules()),
        Job::Placement => (job.name(), placement::roles::webhook_rules()),
        Job::ImagesHco | Job::ImagesSsp | Job::ImagesCdi | Job::ImagesVm => {
            ("images", golden_images::roles::webhook_rules())
        }
        Job::Release | Job::RuntimeClasses => return None,
    };
    Some(cluster_role(&format!("{WEBHOOK}-{name}"), rules))
}

/// The role with which an account, of the controllers or of the webhooks, reads the pull secrets of
/// pods.
pub fn pull_secret_role(account: &str) -> ClusterRole {
    let rules = Job::Placement.pull_secret_rules();
    cluster_role(&format!("{account}-placement-pull-secrets"), rules)
}

/// The role to recognise the API server among the callers of webhooks. It covers one ConfigMap in
/// another namespace; a Role there could not be part of every form of the installation (OLM's, for
/// one).
pub fn callers_role() -> ClusterRole {
    let read = only(CALLERS, rule("", &["configmaps"], &["get"]));
    cluster_role(&format!("{WEBHOOK}-callers"), vec![read])
}

/// The rules of the operator where it serves the console: it keeps the keys of sessions in a Secret. RBAC
/// cannot restrict `create` to a name.
fn console_rules() -> [PolicyRule; 2] {
    let kept = only(CONSOLE_KEYS, rule("", &["secrets"], &["get", "update"]));
    [kept, rule("", &["secrets"], &["create"])]
}

/// The ClusterRoles for users.
pub fn user_roles() -> impl Iterator<Item = ClusterRole> {
    let people = roles::user_roles().into_iter();
    let people = people.chain(golden_images::roles::user_roles());
    let people = people.chain(cpu_models::roles::user_roles());
    let people = people.chain(placement::roles::user_roles());
    people.chain(release_migration::roles::user_roles())
}

/// The optional profiles.
pub(crate) fn optional_profiles() -> Result<Vec<&'static str>, Error> {
    let all = Registry::standard(&SWITCHED_ON)?;
    let optional = all.iter().filter(|profile| !is_standard(&***profile));
    Ok(optional.map(|profile| profile.about().name).collect())
}

/// Whether a profile is enabled by default. RBAC rules of the others are granted on demand.
fn is_standard(profile: &dyn Profile) -> bool {
    let about = profile.about();
    about.advertised && !SWITCHED_ON.contains(&about.name)
}

/// All entries.
pub(crate) fn entries(fill: &Fill) -> Result<Vec<Entry>, Error> {
    let mut entries = operator(fill)?;
    entries.extend(webhook(fill)?);
    let mut users = Vec::new();
    for role in user_roles() {
        users.push(serde_json::to_value(role)?);
    }
    users.push(serde_json::to_value(roles::history_role(&fill.namespace))?);
    entries.push(Entry::new(Part::Rbac, When::Always, USERS_FILE, users));
    Ok(entries)
}

fn operator(fill: &Fill) -> Result<Vec<Entry>, Error> {
    let mut entries = vec![Entry::new(
        Part::Rbac,
        When::Always,
        OPERATOR_FILE,
        at_home(fill, ACCOUNT, &roles::operator_namespace_rules()),
    )];
    for job in Job::ALL {
        let file = if Job::STANDARD.contains(job) {
            OPERATOR_FILE.to_owned()
        } else {
            format!("optional/{job}.yaml")
        };
        let role = job_role(*job)?;
        let when = When::Any(std::slice::from_ref(job));
        entries.push(granted(fill, when, file, role, ACCOUNT)?);
    }
    for name in optional_profiles()? {
        if let Some(role) = profile_role(name)? {
            let file = format!("optional/{name}.yaml");
            entries.push(granted(fill, When::Profile(name), file, role, ACCOUNT)?);
        }
    }
    let owner = cluster_role(RELEASE_OWNER, release_migration::roles::owner_rules());
    let file = "optional/release-owner.yaml".to_owned();
    entries.push(granted(fill, When::ReleaseOwner, file, owner, ACCOUNT)?);
    for (namespace, rules) in Job::Release.namespaced_rules() {
        let objects = elsewhere(fill, namespace, RELEASE_PAYLOADS, &rules, &[ACCOUNT]);
        let file = "optional/release-payloads.yaml";
        entries.push(Entry::new(Part::Rbac, When::ReleasePayloads, file, objects));
    }
    let rules = api::rbac::read_network_authorities();
    let namespace = api::openshift::CONFIG_NAMESPACE;
    let accounts = [ACCOUNT, WEBHOOK];
    let objects = elsewhere(fill, namespace, OPENSHIFT_CONFIG, &rules, &accounts);
    let file = "optional/openshift-config.yaml";
    entries.push(Entry::new(Part::Rbac, When::OpenshiftConfig, file, objects));
    let file = "optional/placement.yaml".to_owned();
    let role = pull_secret_role(ACCOUNT);
    entries.push(granted(fill, When::PullSecrets, file, role, ACCOUNT)?);
    let rules = console_rules();
    let objects = elsewhere(fill, &fill.namespace, CONSOLE_KEYS, &rules, &[ACCOUNT]);
    let file = "optional/console.yaml";
    entries.push(Entry::new(Part::Rbac, When::Console, file, objects));
    // By name, in each namespace: `get` for all Secrets of a namespace would be more than the
    // policies ask for.
    for (namespace, names) in &fill.named_secrets {
        let names: Vec<String> = names.iter().cloned().collect();
        let rules = placement::roles::named_secret_rules(&names);
        let objects = elsewhere(fill, namespace, NAMED_SECRETS, &rules, &[ACCOUNT, WEBHOOK]);
        let when = When::Any(&[Job::Placement]);
        let file = "optional/placement.yaml";
        entries.push(Entry::new(Part::Rbac, when, file, objects));
    }
    Ok(entries)
}

fn webhook(fill: &Fill) -> Result<Vec<Entry>, Error> {
    let mut entries = vec![Entry::new(
        Part::Rbac,
        When::Any(Job::CHECKED),
        WEBHOOK_FILE,
        at_home(fill, WEBHOOK, &roles::webhook_namespace_rules(AUTHORITY)),
    )];
    entries.push(granted(
        fill,
        When::Any(Job::CHECKED),
        WEBHOOK_FILE.to_owned(),
        callers_role(),
        WEBHOOK,
    )?);
    let checked: [(&'static [Job], &str); 4] = [
        (&[Job::Governance], WEBHOOK_FILE),
        (&[Job::CpuModels], WEBHOOK_FILE),
        (Job::IMAGES, "optional/images-webhook.yaml"),
        (&[Job::Placement], "optional/placement-webhook.yaml"),
    ];
    for (jobs, file) in checked {
        // The image layers share one role, so that the first job stands for all.
        let role = jobs.first().and_then(|job| webhook_role(*job));
        if let Some(role) = role {
            let file = file.to_owned();
            entries.push(granted(fill, When::Any(jobs), file, role, WEBHOOK)?);
        }
    }
    let rules = placement::roles::webhook_namespace_rules();
    let objects = elsewhere(fill, &fill.namespace, PLACEMENT_LEASE, &rules, &[WEBHOOK]);
    let when = When::Any(&[Job::Placement]);
    let file = "optional/placement-webhook.yaml";
    entries.push(Entry::new(Part::Rbac, when, file, objects));
    let file = "optional/placement-webhook.yaml".to_owned();
    let role = pull_secret_role(WEBHOOK);
    entries.push(granted(fill, When::PullSecrets, file, role, WEBHOOK)?);
    Ok(entries)
}

/// A service account, and its Role in the namespace of the installation.
fn at_home(fill: &Fill, name: &str, rules: &[PolicyRule]) -> Vec<Value> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name, "namespace": fill.namespace },
        "rules": rules,
    });
    vec![account(fill, name), role, binding(fill, "Role", name, name)]
}

/// A Role of the installation's accounts in a namespace.
fn elsewhere(
    fill: &Fill,
    namespace: &str,
    name: &str,
    rules: &[PolicyRule],
    accounts: &[&str],
) -> Vec<Value> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name, "namespace": namespace },
        "rules": rules,
    });
    let mut bound = binding(fill, "Role", name, name);
    bound["metadata"]["namespace"] = namespace.into();
    let accounts = accounts.iter().map(
        |account| json!({ "kind": "ServiceAccount", "name": account, "namespace": fill.namespace }),
    );
    bound["subjects"] = accounts.collect();
    vec![role, bound]
}

/// A ClusterRole, and its binding to an account.
fn granted(
    fill: &Fill,
    when: When,
    file: String,
    role: ClusterRole,
    account: &str,
) -> Result<Entry, Error> {
    let objects = bound(fill, role, account)?;
    Ok(Entry::new(Part::Rbac, when, file, objects))
}

/// A ClusterRole, and its binding to an account, as objects.
pub(crate) fn bound(fill: &Fill, role: ClusterRole, account: &str) -> Result<Vec<Value>, Error> {
    let name = role.metadata.name.clone().unwrap_or_default();
    let binding = binding(fill, "ClusterRole", &name, account);
    Ok(vec![serde_json::to_value(role)?, binding])
}

/// For clusters whose releases include Medley: its ClusterOperator, with placeholders until a
/// release is built, and the additional rules to report it.
pub(crate) fn cluster_operator(fill: &Fill) -> Result<Vec<Value>, Error> {
    let placeholder = "placeholder.url.oc.will.replace.this.org/placeholdernamespace:medley";
    let manifest = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {
            "name": "medley",
            "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" },
        },
        "spec": {},
        "status": {
            // `oc adm release new` replaces both placeholders. The cluster-version operator then
            // waits until the operator reports exactly these versions.
            "versions": [
                { "name": api::openshift::OPERATOR, "version": "0.0.1-snapshot" },
                { "name": api::openshift::OPERATOR_IMAGE, "version": placeholder },
            ],
            "relatedObjects": [{ "group": "", "resource": "namespaces", "name": fill.namespace }],
        },
    });
    let rules: Vec<PolicyRule> = api::openshift::reporter_rules();
    let role = cluster_role(&format!("{ACCOUNT}-cluster-operator"), rules);
    let mut objects = bound(fill, role, ACCOUNT)?;
    objects.push(manifest);
    Ok(objects)
}

fn account(fill: &Fill, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": fill.namespace },
    })
}

/// Binds an account of the installation to a role.
fn binding(fill: &Fill, kind: &str, role: &str, account: &str) -> Value {
    let namespace = &fill.namespace;
    let mut metadata = json!({ "name": role });
    if kind == "Role" {
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
    })
}
