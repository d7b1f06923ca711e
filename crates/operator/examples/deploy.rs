//! Prints the manifests of an installation; `cargo xtask generate` keeps them in `deploy`.
//!
//! Every file begins with a line `# file: PATH`. Rights come from [`Job::rules`], and so from what the
//! profiles of governance declare, and from what each layer of images needs.

use std::io::Write as _;

use api::monitoring::pod_monitor;
use api::rbac::cluster_role;
use governance::profile::Profile;
use governance::{Registry, alerts, roles};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use operator::{ACCOUNT as OPERATOR, Job, RELEASE_OWNER};
use serde::Serialize;
use serde_json::{Value, json};

const NAMESPACE: &str = "medley-system";
const WEBHOOK: &str = "medley-webhook";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Profiles that an installation has to switch on.
const SWITCHED_ON: [&str; 1] = ["node-health-remediation"];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut files = vec![
        file(
            "crds/cpumodelpolicies.yaml",
            &[definition(&api::cpu::definition())?],
        )?,
        file(
            "crds/goldenimagepolicies.yaml",
            &[definition(&api::golden::definition())?],
        )?,
        file(
            "crds/placementpolicies.yaml",
            &[definition(&api::placement::definition())?],
        )?,
        file(
            "crds/releasepolicies.yaml",
            &[definition(&api::release::definition())?],
        )?,
        file(
            "crds/virtplatformconfigs.yaml",
            &[definition(&api::advisor::definition())?],
        )?,
        file(
            "monitoring/alerts.yaml",
            &[alerts::prometheus_rule(NAMESPACE)],
        )?,
        file(
            "monitoring/cpu-models.yaml",
            &[cpumodel::alerts::prometheus_rule(NAMESPACE)],
        )?,
        file(
            "monitoring/golden-images.yaml",
            &[golden::alerts::prometheus_rule(NAMESPACE)],
        )?,
        file(
            "monitoring/dashboards.yaml",
            &operator::monitoring::dashboards(NAMESPACE),
        )?,
        file("monitoring/metrics.yaml", &[metrics()])?,
        file(
            "monitoring/placement.yaml",
            &[placement::alerts::prometheus_rule(NAMESPACE)],
        )?,
        file(
            "monitoring/release.yaml",
            &[release::alerts::prometheus_rule(NAMESPACE)],
        )?,
        file("operator.yaml", &installation())?,
        file("rbac/operator.yaml", &operator()?)?,
        file("rbac/users.yaml", &users()?)?,
        file("rbac/webhook.yaml", &webhook()?)?,
    ];
    for profile in Registry::standard(&SWITCHED_ON)?.iter() {
        if !is_standard(&**profile) {
            let name = profile.about().name;
            files.push(file(
                &format!("optional/{name}.yaml"),
                &optional(&**profile)?,
            )?);
        }
    }
    for job in Job::ALL.iter().filter(|job| !Job::STANDARD.contains(job)) {
        files.push(file(&format!("optional/{job}.yaml"), &layer(*job)?)?);
    }
    files.push(file(
        "optional/cluster-operator.yaml",
        &cluster_operator()?,
    )?);
    files.push(file("optional/images-webhook.yaml", &check_of_images()?)?);
    files.push(file("optional/placement-webhook.yaml", &check_of_pods()?)?);
    let owner = granted(RELEASE_OWNER, OPERATOR, release::roles::owner_rules())?;
    files.push(file("optional/release-owner.yaml", &owner)?);
    std::io::stdout().write_all(files.concat().as_bytes())?;
    Ok(())
}

/// Whether a profile is there for everybody. The others are given their rights by who wants them.
fn is_standard(profile: &dyn Profile) -> bool {
    let about = profile.about();
    about.advertised && !SWITCHED_ON.contains(&about.name)
}

fn file(path: &str, objects: &[impl Serialize]) -> Result<String, Failure> {
    let mut text = format!(
        "# file: deploy/{path}\n# Written by `cargo xtask generate`; edit crates/operator/examples/deploy.rs instead.\n"
    );
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn definition(definition: &CustomResourceDefinition) -> Result<Value, Failure> {
    let mut definition = serde_json::to_value(definition)?;
    // Limits are floating-point numbers in Go; nobody writes them so.
    machinery::json::settle_numbers(&mut definition);
    Ok(definition)
}

/// What runs.
fn installation() -> Vec<Value> {
    let operator = json!({
        "name": "operator",
        "args": ["run"],
        "ports": [{ "name": "metrics", "containerPort": 8081 }],
        "livenessProbe": probe("/healthz", 8081, "HTTP"),
        "readinessProbe": probe("/readyz", 8081, "HTTP"),
    });
    let check = json!({
        "name": "webhook",
        "args": ["webhook", format!("--register=service={NAMESPACE}/{WEBHOOK}")],
        "ports": [{ "name": "webhook", "containerPort": 9443 }],
        "livenessProbe": probe("/healthz", 9443, "HTTPS"),
        "readinessProbe": probe("/readyz", 9443, "HTTPS"),
    });
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": NAMESPACE,
                "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
            },
        }),
        account(OPERATOR),
        account(WEBHOOK),
        // Of two, one leads and the other waits.
        deployment(OPERATOR, 2, &json!({ "type": "RollingUpdate" }), operator),
        // Keys are made anew at every start, so that two at a time would not be trusted alike.
        deployment(WEBHOOK, 1, &json!({ "type": "Recreate" }), check),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": WEBHOOK, "namespace": NAMESPACE, "labels": labels(WEBHOOK) },
            "spec": {
                "selector": labels(WEBHOOK),
                "ports": [{ "name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP" }],
            },
        }),
    ]
}

fn deployment(name: &str, replicas: u32, strategy: &Value, mut container: Value) -> Value {
    container["image"] = format!("ghcr.io/medley-dev/medley:{VERSION}").into();
    container["env"] = json!([{
        "name": "POD_NAMESPACE",
        "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
    }]);
    container["resources"] = json!({
        "requests": { "cpu": "10m", "memory": "32Mi" },
        "limits": { "memory": "256Mi" },
    });
    container["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels(name) },
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": { "matchLabels": labels(name) },
            "template": {
                "metadata": { "labels": labels(name) },
                "spec": {
                    "serviceAccountName": name,
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "securityContext": {
                        "runAsNonRoot": true,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [container],
                },
            },
        },
    })
}

/// Where Prometheus finds the metrics of the operator.
fn metrics() -> Value {
    pod_monitor(OPERATOR, NAMESPACE, &labels(OPERATOR))
}

fn labels(name: &str) -> Value {
    json!({ "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "medley" })
}

fn probe(path: &str, port: u16, scheme: &str) -> Value {
    json!({ "httpGet": { "path": path, "port": port, "scheme": scheme }, "periodSeconds": 10 })
}

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": NAMESPACE },
    })
}

/// What the operator may do, with the profiles that are there for everybody.
fn operator() -> Result<Vec<Value>, Failure> {
    let all = Registry::standard(&SWITCHED_ON)?;
    let standard = all.iter().filter(|profile| is_standard(&***profile));
    let registry = Registry::new(standard.cloned().collect());
    let rules = Job::STANDARD.iter().flat_map(|job| job.rules(&registry));
    let mut objects = granted(OPERATOR, OPERATOR, rules.collect())?;
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
        "rules": roles::operator_namespace_rules(),
    }));
    objects.push(binding("Role", OPERATOR, OPERATOR));
    Ok(objects)
}

fn webhook() -> Result<Vec<Value>, Failure> {
    let mut rules = roles::webhook_rules();
    rules.extend(cpumodel::roles::webhook_rules());
    granted(WEBHOOK, WEBHOOK, rules)
}

/// What the operator may do besides, for a profile that not everybody wants.
fn optional(profile: &dyn Profile) -> Result<Vec<Value>, Failure> {
    let name = format!("{OPERATOR}-{}", profile.about().name);
    granted(&name, OPERATOR, roles::target_rules([profile]))
}

/// What the operator may do besides, for a job that not everybody wants.
fn layer(job: Job) -> Result<Vec<Value>, Failure> {
    let rules = job.rules(&Registry::new(Vec::new()));
    granted(&format!("{OPERATOR}-{job}"), OPERATOR, rules)
}

/// What the check may do besides, for the layers of images.
fn check_of_images() -> Result<Vec<Value>, Failure> {
    let name = format!("{WEBHOOK}-images");
    granted(&name, WEBHOOK, golden::roles::webhook_rules())
}

/// What the check may do besides, for pods.
fn check_of_pods() -> Result<Vec<Value>, Failure> {
    let name = format!("{WEBHOOK}-placement");
    granted(&name, WEBHOOK, placement::roles::webhook_rules())
}

/// For clusters whose releases have Medley among their operators: what it reports, with what stands for it
/// until a release is built, and what the operator may do besides to report it.
fn cluster_operator() -> Result<Vec<Value>, Failure> {
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
            "versions": [
                { "name": reporter::OPERATOR, "version": "0.0.1-snapshot" },
                { "name": reporter::OPERATOR_IMAGE, "version": placeholder },
            ],
            "relatedObjects": [{ "group": "", "resource": "namespaces", "name": NAMESPACE }],
        },
    });
    let name = format!("{OPERATOR}-cluster-operator");
    let mut objects = granted(&name, OPERATOR, reporter::roles::rules())?;
    objects.push(manifest);
    Ok(objects)
}

fn users() -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    let people = roles::user_roles().into_iter();
    let people = people.chain(golden::roles::user_roles());
    let people = people.chain(cpumodel::roles::user_roles());
    let people = people.chain(placement::roles::user_roles());
    for role in people.chain(release::roles::user_roles()) {
        objects.push(serde_json::to_value(role)?);
    }
    objects.push(serde_json::to_value(roles::history_role(NAMESPACE))?);
    Ok(objects)
}

/// A role in the whole cluster, and an account that has it.
fn granted(name: &str, account: &str, rules: Vec<PolicyRule>) -> Result<Vec<Value>, Failure> {
    let role = serde_json::to_value(cluster_role(name, rules))?;
    Ok(vec![role, binding("ClusterRole", name, account)])
}

/// An account of the installation has a role.
fn binding(kind: &str, role: &str, account: &str) -> Value {
    let mut metadata = json!({ "name": role });
    if kind == "Role" {
        metadata["namespace"] = NAMESPACE.into();
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": NAMESPACE }],
    })
}
