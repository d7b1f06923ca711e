//! What OpenShift has and other clusters do not: constraints of importer pods, routes, certificates of its service CA,
//! cluster monitoring, and workload partitioning.
//!
//! The pods of the operator and the webhooks need no constraints of their own: they name no user, and so
//! `restricted-v2` gives them one of the range of their namespace.

use api::rbac::{cluster_role, only, rule};
use serde_json::{Value, json};

use crate::entry::{Entry, Fill, Part, When};
use crate::workloads::CONSOLE_PORT_NAME;
use crate::{ACCOUNT, CONSOLE, Error, MEDLEY, labels};

/// The SecurityContextConstraints of importer and poller pods.
pub const IMPORTER_CONSTRAINTS: &str = "medley-importer";
/// The role to use them.
pub const IMPORTER_ROLE: &str = "medley-operator-importer";
/// The role of OpenShift's Prometheus in the namespace of the installation.
pub const PROMETHEUS: &str = "medley-prometheus";

/// The user and the group that importer pods ask for: qemu in KubeVirt's images.
const QEMU: i64 = 107;
/// The file of `deploy` with all of it but the console, which takes an argument of the operator.
const FILE: &str = "optional/openshift.yaml";
const NO_FILE: &str = "";

/// Annotation of a Service: the Secret that the service CA writes a certificate of it to.
const SERVING_CERTIFICATE: &str = "service.beta.openshift.io/serving-cert-secret-name";
/// The service CA, in the pods of OpenShift's Prometheus.
const SERVICE_CA: &str = "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt";
/// Where pods mount the certificate of their metrics.
const CERTIFICATE: &str = "/etc/medley/metrics-tls";

/// All entries.
pub(crate) fn entries(fill: &Fill) -> Result<Vec<Entry>, Error> {
    let importers = When::OpenshiftImports;
    let console = When::OpenshiftConsole;
    let entry = |part, when, file: &str, objects| Entry::new(part, when, file, objects);
    Ok(vec![
        entry(Part::Rbac, importers, FILE, importer(fill)?),
        entry(
            Part::Rbac,
            When::OpenshiftMonitoring,
            FILE,
            prometheus(fill),
        ),
        entry(Part::Operator, console, NO_FILE, vec![route(fill)]),
        entry(Part::Operator, console, NO_FILE, vec![console_link(fill)]),
    ])
}

/// Labels and annotations of the namespace.
pub(crate) fn mark_namespace(fill: &Fill, metadata: &mut Value) {
    // Its Prometheus selects monitors and rules in namespaces with this label.
    fill.set(
        &mut metadata["labels"],
        When::Openshift,
        "openshift.io/cluster-monitoring",
        "true".into(),
    );
    // Without it, admission ignores the annotation of the pods.
    fill.set(
        metadata,
        When::Openshift,
        "annotations",
        json!({ "workload.openshift.io/allowed": "management" }),
    );
}

/// On partitioned nodes, pods with this annotation run on the CPUs reserved for the platform.
pub(crate) fn mark_pods(fill: &Fill, metadata: &mut Value) {
    fill.set(
        metadata,
        When::Openshift,
        "annotations",
        json!({ "target.workload.openshift.io/management": r#"{"effect":"PreferredDuringScheduling"}"# }),
    );
}

/// Lets the service CA issue a certificate for a Service, into this Secret.
pub(crate) fn certify(fill: &Fill, service: &mut Value, when: When, secret: &str) {
    let annotations = json!({ SERVING_CERTIFICATE: secret });
    fill.set(&mut service["metadata"], when, "annotations", annotations);
}

/// Arguments to serve metrics with the certificate of the service CA.
pub(crate) fn metrics_arguments(fill: &Fill) -> impl Iterator<Item = String> {
    let argument = |text: &str| (fill.argument)(When::OpenshiftMonitoring, text.to_owned());
    [
        argument(&format!("--metrics-tls-cert={CERTIFICATE}/tls.crt")),
        argument(&format!("--metrics-tls-key={CERTIFICATE}/tls.key")),
    ]
    .into_iter()
    .flatten()
}

/// Where a program finds the certificate of its metrics.
pub(crate) fn certificate_mount() -> Value {
    json!({ "name": "metrics-tls", "mountPath": CERTIFICATE, "readOnly": true })
}

/// The Secret that OpenShift creates for a Service. Not optional: a pod waits for it.
pub(crate) fn certificate_volume(name: &str) -> Value {
    json!({ "name": "metrics-tls", "secret": { "secretName": metrics_secret(name) } })
}

/// The TLS settings of a ServiceMonitor: verified on OpenShift, whose Prometheus has the service CA. Elsewhere the
/// certificate is self-signed, or of a CA that only the API server knows.
pub(crate) fn verify(fill: &Fill, monitor: &mut Value, service: &str) {
    let verified = json!({
        "caFile": SERVICE_CA,
        "serverName": format!("{service}.{}.svc", fill.namespace),
    });
    let endpoint = &mut monitor["spec"]["endpoints"][0];
    let Some(fields) = endpoint.as_object_mut() else {
        return;
    };
    let Some(usual) = fields.remove("tlsConfig") else {
        return;
    };
    fill.set(endpoint, When::NotOpenshift, "tlsConfig", usual);
    fill.set(endpoint, When::Openshift, "tlsConfig", verified);
}

pub(crate) fn metrics_secret(name: &str) -> String {
    format!("{name}-metrics-tls")
}

/// The constraints of importer pods. Admission tests those of the user who creates a pod besides those of its service
/// account, and the operator creates these pods itself, in the namespaces of the images. So they are granted to the
/// operator alone, as CDI grants its own to its controller: granting them to service accounts in those namespaces would
/// let other pods there run as this user.
fn importer(fill: &Fill) -> Result<Vec<Value>, Error> {
    let exactly = json!({ "type": "MustRunAs", "ranges": [{ "min": QEMU, "max": QEMU }] });
    let constraints = json!({
        "apiVersion": "security.openshift.io/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {
            "name": IMPORTER_CONSTRAINTS,
            "labels": labels(IMPORTER_CONSTRAINTS),
            "annotations": {
                "kubernetes.io/description": "Importer pods of Medley: as restricted-v2, but with the user and group of qemu, who owns the disks of virtual machines.",
            },
        },
        "allowHostDirVolumePlugin": false,
        "allowHostIPC": false,
        "allowHostNetwork": false,
        "allowHostPID": false,
        "allowHostPorts": false,
        "allowPrivilegeEscalation": false,
        "allowPrivilegedContainer": false,
        "allowedCapabilities": [],
        "defaultAddCapabilities": [],
        "requiredDropCapabilities": ["ALL"],
        // Not preferred to others: a pod that fits restricted-v2 gets that.
        "priority": null,
        "readOnlyRootFilesystem": true,
        "runAsUser": { "type": "MustRunAs", "uid": QEMU },
        "fsGroup": exactly,
        "supplementalGroups": { "type": "RunAsAny" },
        // The label of the namespace, which launcher pods of its virtual machines have, too.
        "seLinuxContext": { "type": "MustRunAs" },
        "seccompProfiles": ["runtime/default"],
        "users": [],
        "groups": [],
        // `image` where the node pulls the image; versions without image volumes ignore it.
        "volumes": ["configMap", "emptyDir", "image", "persistentVolumeClaim", "projected", "secret"],
    });
    let usage = only(
        IMPORTER_CONSTRAINTS,
        rule(
            "security.openshift.io",
            &["securitycontextconstraints"],
            &["use"],
        ),
    );
    let role = cluster_role(IMPORTER_ROLE, vec![usage]);
    let mut objects = vec![constraints];
    objects.extend(crate::rbac::bound(fill, role, ACCOUNT)?);
    Ok(objects)
}

/// OpenShift's Prometheus finds the pods of a monitor by their Services. Its own ClusterRole has `get` on the metrics.
fn prometheus(fill: &Fill) -> Vec<Value> {
    let metadata = json!({ "name": PROMETHEUS, "namespace": fill.namespace });
    let read = ["get", "list", "watch"];
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                rule("", &["services", "endpoints", "pods"], &read),
                rule("discovery.k8s.io", &["endpointslices"], &read),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": PROMETHEUS,
            },
            "subjects": [{
                "kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "openshift-monitoring",
            }],
        }),
    ]
}

/// The route to the console. The router terminates TLS with its own certificate, which browsers know; where the console serves
/// TLS itself, the router verifies that with the service CA.
fn route(fill: &Fill) -> Value {
    let mut tls = json!({ "insecureEdgeTerminationPolicy": "Redirect" });
    fill.set(&mut tls, When::ConsolePlain, "termination", "edge".into());
    fill.set(
        &mut tls,
        When::ConsoleTls,
        "termination",
        "reencrypt".into(),
    );
    json!({
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": { "name": CONSOLE, "namespace": fill.namespace, "labels": labels(CONSOLE) },
        "spec": {
            "host": fill.console_host,
            "to": { "kind": "Service", "name": CONSOLE, "weight": 100 },
            "port": { "targetPort": CONSOLE_PORT_NAME },
            "tls": tls,
            "wildcardPolicy": "None",
        },
    })
}

/// An entry in the application menu of OpenShift's console. Not a ConsolePlugin, which would need a program in
/// JavaScript that the console loads.
fn console_link(fill: &Fill) -> Value {
    json!({
        "apiVersion": "console.openshift.io/v1",
        "kind": "ConsoleLink",
        "metadata": { "name": MEDLEY, "labels": labels(CONSOLE) },
        "spec": {
            "text": "Medley",
            "href": format!("https://{}/", fill.console_host),
            "location": "ApplicationMenu",
            "applicationMenu": { "section": "Medley" },
        },
    })
}
