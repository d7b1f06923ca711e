//! Workloads: the operator, the admission webhooks, and their network policies.

use serde_json::{Value, json};

use crate::entry::{Entry, Fill, Part, When};
use crate::openshift::{
    certificate_mount, certificate_volume, certify, mark_pods, metrics_arguments, metrics_secret,
};
use crate::{
    ACCOUNT, AUTHORITY, CALLERS, CALLERS_NAMESPACE, CONSOLE, CONSOLE_KEYS, CONSOLE_OIDC,
    CONSOLE_TLS, ENVIRONMENT, Job, TRUSTED_CA, WEBHOOK, labels,
};

/// Health port of the operator.
const HEALTH_PORT: u16 = 8081;
/// Metrics port over TLS, since clients send a token.
pub(crate) const METRICS_PORT: u16 = 8443;
/// Console port.
const CONSOLE_PORT: u16 = 8080;
/// Its name in the Service.
pub(crate) const CONSOLE_PORT_NAME: &str = "console";
/// Port that the API server calls.
const WEBHOOK_PORT: u16 = 9443;
/// Health port of the webhooks, so that kubelets never compete with other clients for a connection.
const WEBHOOK_HEALTH_PORT: u16 = 8082;

/// Where the CA certificates of the installation are mounted.
const CA_FOLDER: &str = "/etc/medley/trusted-ca";

const FILE: &str = "operator.yaml";
/// Where the operator finds the files of the console's Secrets.
const CONSOLE_FILES: &str = "/etc/medley-console";
/// Of objects without a plain file: the console takes an argument of the operator, and variables have no default.
const NO_FILE: &str = "";

/// All entries.
pub(crate) fn entries(fill: &Fill) -> Vec<Entry> {
    let checked = When::Any(Job::CHECKED);
    let entry = |part, when, file: &str, object| Entry::new(part, when, file, vec![object]);
    vec![
        entry(
            Part::Operator,
            When::Environment,
            NO_FILE,
            environment(fill),
        ),
        entry(Part::Operator, When::Always, FILE, operator(fill)),
        entry(
            Part::Operator,
            When::Replicated,
            FILE,
            budget(fill, ACCOUNT),
        ),
        entry(Part::Operator, When::ConsolePlain, NO_FILE, console(fill)),
        entry(
            Part::Operator,
            When::ConsoleTls,
            NO_FILE,
            console_with_tls(fill),
        ),
        entry(Part::Webhook, checked, FILE, webhook(fill)),
        entry(Part::Webhook, checked, FILE, budget(fill, WEBHOOK)),
        entry(Part::Webhook, checked, FILE, webhook_service(fill)),
        entry(
            Part::Network,
            When::Always,
            FILE,
            reachable(fill, ACCOUNT, ACCOUNT, &[for_pods(METRICS_PORT)]),
        ),
        entry(
            Part::Network,
            When::Console,
            NO_FILE,
            reachable(fill, CONSOLE, ACCOUNT, &[open(CONSOLE_PORT)]),
        ),
        entry(
            Part::Network,
            checked,
            FILE,
            reachable(
                fill,
                WEBHOOK,
                WEBHOOK,
                &[for_api_servers(fill), for_pods(METRICS_PORT)],
            ),
        ),
    ]
}

/// Several replicas: one leads and the others stand by.
fn operator(fill: &Fill) -> Value {
    let mut arguments = vec![
        "run".to_owned(),
        format!("--controllers={}", fill.jobs),
        format!("--metrics-address=0.0.0.0:{METRICS_PORT}"),
        format!("--ca={CA_FOLDER}"),
    ];
    arguments.extend((fill.argument)(
        When::Profiles,
        format!("--enable-profile={}", fill.profiles),
    ));
    arguments.extend((fill.argument)(
        When::Any(&[Job::ImagesCdi]),
        format!("--importer-image={}", fill.image),
    ));
    arguments.extend((fill.argument)(
        When::Console,
        format!("--console=0.0.0.0:{CONSOLE_PORT}"),
    ));
    arguments.extend((fill.argument)(
        When::Console,
        // kubelet expands the variable, so that one set of arguments fits every namespace, OLM's
        // included.
        format!("--console-host={CONSOLE}.$(POD_NAMESPACE).svc"),
    ));
    arguments.extend((fill.argument)(
        When::ConsoleHosts,
        format!("--console-host={}", fill.console_hosts),
    ));
    arguments.extend((fill.argument)(
        When::ConsoleHosts,
        "--console-behind-tls".to_owned(),
    ));
    arguments.extend(metrics_arguments(fill));
    let issuer = format!("--console-oidc-issuer={}", fill.console_issuer);
    let client = format!("--console-oidc-client-id={}", fill.console_client);
    for (when, argument) in [
        (
            When::Console,
            format!("--console-session-secret={CONSOLE_KEYS}"),
        ),
        (
            When::ConsoleTls,
            format!("--console-tls-cert={CONSOLE_FILES}/tls.crt"),
        ),
        (
            When::ConsoleTls,
            format!("--console-tls-key={CONSOLE_FILES}/tls.key"),
        ),
        (When::ConsoleOidc, issuer),
        (When::ConsoleOidc, client),
        (
            When::ConsoleOidc,
            format!("--console-oidc-client-secret-file={CONSOLE_FILES}/client-secret"),
        ),
        (
            When::ConsoleOidcCa,
            format!("--console-oidc-ca={CONSOLE_FILES}/ca.crt"),
        ),
    ] {
        arguments.extend((fill.argument)(when, argument));
    }
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

/// All replicas serve, with certificates of shared CAs. They recognise the API server where the
/// cluster publishes the CA of its client certificate and makes it present one.
fn webhook(fill: &Fill) -> Value {
    let mut arguments = vec![
        "webhook".to_owned(),
        format!("--register=service=$(POD_NAMESPACE)/{WEBHOOK}"),
        format!("--tls-secret={AUTHORITY}"),
        format!("--controllers={}", fill.jobs),
        format!("--health-address=0.0.0.0:{WEBHOOK_HEALTH_PORT}"),
        format!("--metrics-address=0.0.0.0:{METRICS_PORT}"),
        format!("--client-ca-configmap={CALLERS_NAMESPACE}/{CALLERS}"),
        format!("--ca={CA_FOLDER}"),
    ];
    arguments.extend((fill.argument)(
        When::ClientNames,
        format!("--client-name={}", fill.client_names),
    ));
    arguments.extend((fill.argument)(
        When::RequireClientCert,
        "--require-client-cert".to_owned(),
    ));
    arguments.extend(metrics_arguments(fill));
    let container = json!({
        "name": "webhook",
        "args": arguments,
        "ports": [
            { "name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP" },
            { "name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP" },
            { "name": "health", "containerPort": WEBHOOK_HEALTH_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": probe("/livez", WEBHOOK_HEALTH_PORT, "HTTP"),
        "readinessProbe": probe("/readyz", WEBHOOK_HEALTH_PORT, "HTTP"),
    });
    deployment(fill, WEBHOOK, container)
}

/// Variables of the operator and the webhooks, such as those of proxies.
fn environment(fill: &Fill) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(fill, ENVIRONMENT),
        "type": "Opaque",
        "stringData": fill.environment,
    })
}

fn deployment(fill: &Fill, name: &str, mut container: Value) -> Value {
    container["image"] = fill.image.clone().into();
    // Both are optional, so that every kind of installation can be given them without other manifests: variables of any name,
    // and CA certificates. Pods have to be restarted to read variables again.
    container["envFrom"] = json!([{ "secretRef": { "name": ENVIRONMENT, "optional": true } }]);
    let mut mounts =
        vec![json!({ "name": "trusted-ca", "mountPath": CA_FOLDER, "readOnly": true })];
    let mut volumes = vec![json!({
        "name": "trusted-ca",
        "configMap": { "name": TRUSTED_CA, "optional": true },
    })];
    mounts.extend(fill.item(When::OpenshiftMonitoring, &certificate_mount()));
    volumes.extend(fill.item(When::OpenshiftMonitoring, &certificate_volume(name)));
    if name == ACCOUNT {
        let mount = json!({ "name": CONSOLE, "mountPath": CONSOLE_FILES, "readOnly": true });
        mounts.extend(fill.item(When::ConsoleFiles, &mount));
        // One volume for both Secrets, of which the installation may have one.
        let secret = |name| json!({ "secret": { "name": name, "optional": true } });
        let sources = [secret(CONSOLE_TLS), secret(CONSOLE_OIDC)];
        let volume = json!({ "name": CONSOLE, "projected": { "sources": sources } });
        volumes.extend(fill.item(When::ConsoleFiles, &volume));
    }
    container["env"] = json!([{
        "name": "POD_NAMESPACE",
        "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
    }]);
    // 5,000 nodes and 10,000 VMs take 425 MiB.
    container["resources"] = json!({
        "requests": { "cpu": "10m", "memory": "32Mi" },
        // No CPU limit: throttling a leader delays the renewal of its lease, and the process would
        // exit for it.
        "limits": { "memory": "1Gi" },
    });
    container["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    let mut marks = json!({ "labels": labels(name) });
    mark_pods(fill, &mut marks);
    let mut pod = json!({
        "serviceAccountName": name,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        // No user: that of the image, or on OpenShift one of the namespace's range, which it would have to be in.
        "securityContext": {
            "runAsNonRoot": true,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        // A standby replica should not be lost together with the leader.
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            // A preference, since on a cluster with one node both replicas have to run there.
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": labels(name) },
        }],
    });
    container["volumeMounts"] = mounts.into();
    pod["containers"] = json!([container]);
    pod["volumes"] = volumes.into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(fill, name),
        "spec": {
            "replicas": fill.replicas,
            "strategy": { "type": "RollingUpdate" },
            "selector": { "matchLabels": labels(name) },
            "template": { "metadata": marks, "spec": pod },
        },
    })
}

/// Nodes are drained one replica at a time.
fn budget(fill: &Fill, name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(fill, name),
        // Not `minAvailable`: with one replica that would block every drain.
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels(name) } },
    })
}

/// Every replica continues a session. A browser stays with one nevertheless: each caches what the user
/// has seen.
fn console(fill: &Fill) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(fill, CONSOLE),
        "spec": {
            "selector": labels(ACCOUNT),
            "sessionAffinity": "ClientIP",
            "ports": [{
                "name": CONSOLE_PORT_NAME, "port": 80, "targetPort": CONSOLE_PORT, "protocol": "TCP",
            }],
        },
    })
}

/// The same with TLS. OpenShift issues the certificate for the annotation; elsewhere the Secret is
/// created by cert-manager or by the administrator.
fn console_with_tls(fill: &Fill) -> Value {
    let mut service = console(fill);
    certify(fill, &mut service, When::Openshift, CONSOLE_TLS);
    service["spec"]["ports"][0]["port"] = 443.into();
    service
}

fn webhook_service(fill: &Fill) -> Value {
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(fill, WEBHOOK),
        "spec": {
            "selector": labels(WEBHOOK),
            "ports": [
                { "name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP" },
                {
                    "name": "metrics",
                    "port": METRICS_PORT,
                    "targetPort": "metrics",
                    "protocol": "TCP",
                },
            ],
        },
    });
    certify(
        fill,
        &mut service,
        When::OpenshiftMonitoring,
        &metrics_secret(WEBHOOK),
    );
    service
}

/// Ingress to some pods; no other port can be reached from another node. Egress is left open,
/// because registries and the API server may be anywhere. A kubelet reaches the pods of its node
/// regardless of policies, so probes need no rule.
fn reachable(fill: &Fill, name: &str, pods: &str, ingress: &[Value]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(fill, name),
        "spec": {
            "podSelector": { "matchLabels": labels(pods) },
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    })
}

/// A port open to all.
fn open(port: u16) -> Value {
    json!({ "ports": [{ "port": port, "protocol": "TCP" }] })
}

/// The port of the webhooks. The source addresses of API servers differ between clusters (their
/// hosts, a tunnel, the addresses of nodes), so it is open unless the options name them.
fn for_api_servers(fill: &Fill) -> Value {
    let mut rule = open(WEBHOOK_PORT);
    // An empty list allows all peers.
    rule["from"] = fill.api_servers.clone();
    rule
}

/// The metrics port, for pods of the cluster. They also need a token.
fn for_pods(port: u16) -> Value {
    let mut rule = open(port);
    rule["from"] = json!([{ "namespaceSelector": {} }]);
    rule
}

fn metadata(fill: &Fill, name: &str) -> Value {
    json!({ "name": name, "namespace": fill.namespace, "labels": labels(name) })
}

fn probe(path: &str, port: u16, scheme: &str) -> Value {
    json!({ "httpGet": { "path": path, "port": port, "scheme": scheme }, "periodSeconds": 10 })
}
