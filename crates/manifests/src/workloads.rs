//! What runs: the operator, the admission checks, and who may reach them.

use serde_json::{Value, json};

use crate::entry::{Entry, Fill, Part, When};
use crate::{ACCOUNT, AUTHORITY, CONSOLE, Job, WEBHOOK, labels};

/// Where the health of the operator is.
const HEALTH_PORT: u16 = 8081;
/// Where its metrics are, by TLS: whoever reads them has a token.
pub(crate) const METRICS_PORT: u16 = 8443;
/// Where the console is.
const CONSOLE_PORT: u16 = 8080;
/// Where the API server asks.
const WEBHOOK_PORT: u16 = 9443;

const FILE: &str = "operator.yaml";
/// The console is in no plain file: it takes an argument of the operator.
const NO_FILE: &str = "";

/// All of it.
pub(crate) fn entries(fill: &dyn Fill) -> Vec<Entry> {
    let checked = When::Any(Job::CHECKED);
    let entry = |part, when, file: &str, object| Entry::new(part, when, file, vec![object]);
    vec![
        entry(Part::Operator, When::Always, FILE, operator(fill)),
        entry(
            Part::Operator,
            When::Replicated,
            FILE,
            budget(fill, ACCOUNT),
        ),
        entry(Part::Operator, When::Console, NO_FILE, console(fill)),
        entry(Part::Webhook, checked, FILE, webhook(fill)),
        entry(Part::Webhook, checked, FILE, budget(fill, WEBHOOK)),
        entry(Part::Webhook, checked, FILE, webhook_service(fill)),
        entry(
            Part::Network,
            When::Always,
            FILE,
            reachable(fill, ACCOUNT, ACCOUNT, METRICS_PORT),
        ),
        entry(
            Part::Network,
            When::Console,
            NO_FILE,
            reachable(fill, CONSOLE, ACCOUNT, CONSOLE_PORT),
        ),
        entry(
            Part::Network,
            checked,
            FILE,
            reachable(fill, WEBHOOK, WEBHOOK, WEBHOOK_PORT),
        ),
    ]
}

/// Of several, one leads and the others wait.
fn operator(fill: &dyn Fill) -> Value {
    let mut arguments = vec![
        "run".to_owned(),
        format!("--controllers={}", fill.jobs()),
        format!("--metrics-address=0.0.0.0:{METRICS_PORT}"),
    ];
    arguments.extend(fill.argument(
        When::Profiles,
        format!("--enable-profile={}", fill.profiles()),
    ));
    arguments.extend(fill.argument(
        When::Any(&[Job::ImagesCdi]),
        format!("--importer-image={}", fill.image()),
    ));
    arguments.extend(fill.argument(When::Console, format!("--console=0.0.0.0:{CONSOLE_PORT}")));
    arguments.extend(fill.argument(
        When::Console,
        format!("--console-host={CONSOLE}.$(POD_NAMESPACE).svc"),
    ));
    arguments.extend(fill.argument(
        When::ConsoleHosts,
        format!("--console-host={}", fill.console_hosts()),
    ));
    arguments.extend(fill.argument(When::ConsoleHosts, "--console-behind-tls".to_owned()));
    let container = json!({
        "name": "operator",
        "args": arguments,
        "ports": [
            { "name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP" },
            { "name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": probe("/livez", HEALTH_PORT, "HTTP"),
        "readinessProbe": probe("/readyz", HEALTH_PORT, "HTTP"),
    });
    deployment(fill, ACCOUNT, container)
}

/// All of them answer, with certificates of authorities that they share.
fn webhook(fill: &dyn Fill) -> Value {
    let container = json!({
        "name": "webhook",
        "args": [
            "webhook",
            format!("--register=service=$(POD_NAMESPACE)/{WEBHOOK}"),
            format!("--tls-secret={AUTHORITY}"),
            format!("--controllers={}", fill.jobs()),
        ],
        "ports": [{ "name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP" }],
        "livenessProbe": probe("/livez", WEBHOOK_PORT, "HTTPS"),
        "readinessProbe": probe("/readyz", WEBHOOK_PORT, "HTTPS"),
    });
    deployment(fill, WEBHOOK, container)
}

fn deployment(fill: &dyn Fill, name: &str, mut container: Value) -> Value {
    container["image"] = fill.image().into();
    container["env"] = json!([{
        "name": "POD_NAMESPACE",
        "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
    }]);
    // 5,000 nodes and 10,000 machines take 425 MiB.
    container["resources"] = json!({
        "requests": { "cpu": "10m", "memory": "32Mi" },
        "limits": { "memory": "1Gi" },
    });
    container["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(fill, name),
        "spec": {
            "replicas": fill.replicas(),
            "strategy": { "type": "RollingUpdate" },
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
                    // What is to take over should not be lost together with what it takes over from.
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": { "matchLabels": labels(name) },
                    }],
                    "containers": [container],
                },
            },
        },
    })
}

/// Nodes are drained one replica at a time.
fn budget(fill: &dyn Fill, name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(fill, name),
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels(name) } },
    })
}

/// Sessions are kept in one operator: a browser stays with it.
fn console(fill: &dyn Fill) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(fill, CONSOLE),
        "spec": {
            "selector": labels(ACCOUNT),
            "sessionAffinity": "ClientIP",
            "ports": [{
                "name": "console", "port": 80, "targetPort": CONSOLE_PORT, "protocol": "TCP",
            }],
        },
    })
}

fn webhook_service(fill: &dyn Fill) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(fill, WEBHOOK),
        "spec": {
            "selector": labels(WEBHOOK),
            "ports": [{
                "name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP",
            }],
        },
    })
}

/// One port of some pods can be reached, by anybody: the API server and Prometheus may be anywhere. What the
/// pods reach is left open, for the same reason, and because registries are. A kubelet reaches the pods of its
/// node whatever policies say, so probes need none.
fn reachable(fill: &dyn Fill, name: &str, pods: &str, port: u16) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(fill, name),
        "spec": {
            "podSelector": { "matchLabels": labels(pods) },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": [{ "port": port, "protocol": "TCP" }] }],
        },
    })
}

fn metadata(fill: &dyn Fill, name: &str) -> Value {
    json!({ "name": name, "namespace": fill.namespace(), "labels": labels(name) })
}

fn probe(path: &str, port: u16, scheme: &str) -> Value {
    json!({ "httpGet": { "path": path, "port": port, "scheme": scheme }, "periodSeconds": 10 })
}
