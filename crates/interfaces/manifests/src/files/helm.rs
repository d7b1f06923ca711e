//! The installation as a Helm chart: the same entries as templates, with their conditions.
//!
//! Objects are filled with marks, written as YAML, and the marks are replaced by template
//! expressions, line by line. The templates only use `if`, `has`, `and`, `or`, `not`, `gt`, `index`,
//! `join`, `toJson`, `quote` and the API versions of the cluster, so that a test can evaluate them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Files, WRITTEN};
use crate::entry::{Entry, Fill, Part, When};
use crate::{ACCOUNT, CONSOLE, Error, HOME, IMAGE, Job, NAMESPACE, Options, VERSION, WEBHOOK};
use crate::{OLDEST_KUBERNETES, entries, rbac};

const CHART: &str = "helm/medley";

/// Placeholders, which occur in no other value.
const NAMESPACE_MARK: &str = "x-medley-namespace-x";
const IMAGE_MARK: &str = "x-medley-image-x";
const JOBS_MARK: &str = "x-medley-jobs-x";
const PROFILES_MARK: &str = "x-medley-profiles-x";
const HOSTS_MARK: &str = "x-medley-hosts-x";
const HOST_MARK: &str = "x-medley-host-x";
const ISSUER_MARK: &str = "x-medley-issuer-x";
const OIDC_CLIENT_MARK: &str = "x-medley-oidc-client-x";
const CLIENTS_MARK: &str = "x-medley-clients-x";
const ENVIRONMENT_MARK: &str = "x-medley-environment-x";
const API_SERVERS_MARK: &str = "x-medley-api-servers-x";
// A number, because a text would be quoted in the YAML that it is written to.
const REPLICAS_MARK: u32 = 987_654_321;
/// A conditional argument: this, the condition, and the argument.
const IF_MARK: &str = "x-medley-if-x";
const THEN_MARK: &str = "x-medley-then-x";
/// A conditional field: one of these, and the key. Not the condition itself, because YAML writes long keys in another
/// form.
const KEY_MARKS: [(&str, When); 5] = [
    ("x-medley-plain-x", When::ConsolePlain),
    ("x-medley-tls-x", When::ConsoleTls),
    ("x-medley-openshift-x", When::Openshift),
    ("x-medley-elsewhere-x", When::NotOpenshift),
    ("x-medley-monitored-x", When::OpenshiftMonitoring),
];
/// Whether the cluster is OpenShift: as the values say, or because it has its kinds.
const OPENSHIFT: &str = "or .Values.openshift.enabled (and .Values.openshift.detect (.Capabilities.APIVersions.Has \"security.openshift.io/v1\"))";

/// Placeholders instead of values.
fn placeholders() -> Fill {
    let argument = |when, text: String| match condition(when) {
        Some(condition) => format!("{IF_MARK}{condition}{THEN_MARK}{text}"),
        None => text,
    };
    let key = |when, key: &str| {
        let mark = KEY_MARKS.iter().find(|(_, it)| *it == when);
        format!("{}{key}", mark.map(|(mark, _)| *mark).unwrap_or_default())
    };
    Fill {
        namespace: NAMESPACE_MARK.to_owned(),
        image: IMAGE_MARK.to_owned(),
        replicas: REPLICAS_MARK.into(),
        jobs: JOBS_MARK.to_owned(),
        profiles: PROFILES_MARK.to_owned(),
        console_hosts: HOSTS_MARK.to_owned(),
        console_issuer: ISSUER_MARK.to_owned(),
        console_client: OIDC_CLIENT_MARK.to_owned(),
        client_names: CLIENTS_MARK.to_owned(),
        console_host: HOST_MARK.to_owned(),
        api_servers: API_SERVERS_MARK.into(),
        environment: ENVIRONMENT_MARK.into(),
        named_secrets: BTreeMap::new(),
        argument: Box::new(move |when, text| Some(argument(when, text))),
        key: Box::new(move |when, name| Some(key(when, name))),
    }
}

pub(super) fn files() -> Result<Files, Error> {
    let mut templates: BTreeMap<Part, String> = BTreeMap::new();
    for entry in entries(&placeholders())? {
        // Helm creates the namespace.
        if entry.part != Part::Namespace {
            let text = templates.entry(entry.part).or_default();
            text.push_str(&template(entry)?);
        }
    }
    let mut files = Files::new();
    for (part, text) in templates {
        let text = match part {
            // As templates and not in `crds/`, which Helm installs once and never updates.
            Part::Crds => enclosed(".Values.crds.install", &text),
            Part::Monitoring => enclosed(".Values.monitoring.enabled", &text),
            _ => text,
        };
        files.insert(
            format!("{CHART}/templates/{part}.yaml"),
            format!("{WRITTEN}{text}"),
        );
    }
    files.insert(format!("{CHART}/templates/NOTES.txt"), notes());
    files.insert(format!("{CHART}/Chart.yaml"), chart());
    files.insert(format!("{CHART}/values.yaml"), values());
    files.insert(
        format!("{CHART}/values.schema.json"),
        format!("{:#}\n", schema()?),
    );
    Ok(files)
}

/// The objects of an entry, within its condition.
fn template(entry: Entry) -> Result<String, Error> {
    let mut text = String::new();
    for mut object in entry.objects {
        if entry.part == Part::Crds {
            // Deleting the CRDs on uninstall would delete all configurations and policies.
            object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
        }
        text.push_str("---\n");
        text.push_str(&unmarked(&super::unfolded(&object)?));
    }
    Ok(match condition(entry.when) {
        Some(condition) => enclosed(&condition, &text),
        None => text,
    })
}

fn enclosed(condition: &str, text: &str) -> String {
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// A condition as a template expression.
fn condition(when: When) -> Option<String> {
    let runs = |job: &Job| format!("has \"{job}\" .Values.controllers");
    Some(match when {
        When::Always => return None,
        When::Any([job]) => runs(job),
        When::Any(jobs) => {
            let any: Vec<String> = jobs.iter().map(|job| format!("({})", runs(job))).collect();
            format!("or {}", any.join(" "))
        }
        When::Profile(name) => format!(
            "and ({}) (has \"{name}\" .Values.profiles)",
            runs(&Job::Governance)
        ),
        When::Profiles => format!("and ({}) .Values.profiles", runs(&Job::Governance)),
        When::ReleaseOwner => format!("and ({}) .Values.releaseOwner", runs(&Job::Release)),
        When::ReleasePayloads => {
            format!("and ({}) .Values.releasePayloads", runs(&Job::Release))
        }
        When::OpenshiftConfig => {
            let any: Vec<String> = Job::REGISTRIES
                .iter()
                .map(|job| format!("({})", runs(job)))
                .collect();
            format!(
                "and (or {}) (or .Values.openshiftConfig ({OPENSHIFT}))",
                any.join(" ")
            )
        }
        When::PullSecrets => format!("and ({}) .Values.pullSecrets", runs(&Job::Placement)),
        When::Console => ".Values.console.enabled".to_owned(),
        When::ConsoleHosts => "and .Values.console.enabled .Values.console.hosts".to_owned(),
        When::ConsolePlain => "and .Values.console.enabled (not .Values.console.tls)".to_owned(),
        When::ConsoleTls => "and .Values.console.enabled .Values.console.tls".to_owned(),
        When::ConsoleOidc => "and .Values.console.enabled .Values.console.oidc.issuer".to_owned(),
        When::ConsoleOidcCa => {
            "and .Values.console.enabled .Values.console.oidc.issuer .Values.console.oidc.ca"
                .to_owned()
        }
        When::ConsoleFiles => {
            "and .Values.console.enabled (or .Values.console.tls .Values.console.oidc.issuer)"
                .to_owned()
        }
        When::ClientNames => ".Values.webhook.clientNames".to_owned(),
        When::RequireClientCert => ".Values.webhook.requireClientCert".to_owned(),
        When::Environment => ".Values.environment".to_owned(),
        When::Replicated => "gt (int .Values.replicas) 1".to_owned(),
        When::Openshift => OPENSHIFT.to_owned(),
        When::NotOpenshift => format!("not ({OPENSHIFT})"),
        When::OpenshiftImports => format!("and ({OPENSHIFT}) ({})", runs(&Job::ImagesCdi)),
        When::OpenshiftMonitoring => format!("and ({OPENSHIFT}) .Values.monitoring.enabled"),
        When::OpenshiftConsole => {
            format!("and ({OPENSHIFT}) .Values.console.enabled .Values.console.hosts")
        }
    })
}

/// YAML with template expressions for placeholders.
fn unmarked(yaml: &str) -> String {
    let lines: Vec<&str> = yaml.lines().collect();
    let mut text = String::new();
    write_lines(&lines, &mut text);
    text
}

/// The condition of a line whose key is marked, and the line without the mark.
fn conditional_field(line: &str) -> Option<(String, String)> {
    let (mark, when) = KEY_MARKS.iter().find(|(mark, _)| line.contains(mark))?;
    Some((condition(*when)?, line.replace(mark, "")))
}

/// Number of spaces before a line.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn write_lines(lines: &[&str], text: &mut String) {
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        if let Some((condition, field)) = conditional_field(line) {
            // The value: what is deeper, and the items of a list, which may begin below the key.
            let here = depth(line);
            let belongs = |it: &&&str| {
                depth(it) > here || depth(it) == here && it.trim_start().starts_with("- ")
            };
            let (value, next) = after.split_at(after.iter().take_while(belongs).count());
            rest = next;
            let indent = " ".repeat(here);
            let _ = writeln!(
                text,
                "{indent}{{{{- if {condition} }}}}\n{}",
                filled(&field)
            );
            write_lines(value, text);
            let _ = writeln!(text, "{indent}{{{{- end }}}}");
            continue;
        }
        // `{{` that is not ours belongs to Prometheus alerts.
        let line = line.replace("{{", "{{ `{{` }}");
        let indent = line.len() - line.trim_start().len();
        let (indent, rest) = line.split_at(indent);
        let conditional = rest.split_once(IF_MARK).and_then(|(before, rest)| {
            let (condition, argument) = rest.split_once(THEN_MARK)?;
            Some((before, unescaped(condition), argument))
        });
        match conditional {
            Some((before, condition, argument)) => {
                // Quoted or not, an argument is one line.
                let bare = before.trim_end_matches(['"', '\'']);
                let argument = if bare == before {
                    argument.to_owned()
                } else {
                    unescaped(argument.trim_end_matches(['"', '\'']))
                };
                let line = filled(&format!("{indent}{bare}{argument}"));
                let _ = writeln!(
                    text,
                    "{indent}{{{{- if {condition} }}}}\n{line}\n{indent}{{{{- end }}}}"
                );
            }
            None => {
                let _ = writeln!(text, "{}", filled(&line));
            }
        }
    }
}

/// A condition in a text that YAML may have quoted.
fn unescaped(text: &str) -> String {
    text.replace("\\\"", "\"")
}

/// A line with template expressions for values.
fn filled(line: &str) -> String {
    // A whole value is quoted: a namespace can look like a number.
    let whole = |mark: &str| line.ends_with(&format!(": {mark}"));
    let word = |mark: &str, value: &str| {
        if whole(mark) {
            format!("{{{{ {value} | quote }}}}")
        } else {
            format!("{{{{ {value} }}}}")
        }
    };
    let list = |value: &str| format!("{{{{ join \",\" {value} }}}}");
    line.replace(NAMESPACE_MARK, &word(NAMESPACE_MARK, ".Release.Namespace"))
        .replace(IMAGE_MARK, &word(IMAGE_MARK, ".Values.image"))
        .replace(JOBS_MARK, &list(".Values.controllers"))
        .replace(PROFILES_MARK, &list(".Values.profiles"))
        .replace(HOSTS_MARK, &list(".Values.console.hosts"))
        .replace(HOST_MARK, &word(HOST_MARK, "index .Values.console.hosts 0"))
        .replace(ISSUER_MARK, "{{ .Values.console.oidc.issuer }}")
        .replace(OIDC_CLIENT_MARK, "{{ .Values.console.oidc.clientId }}")
        .replace(CLIENTS_MARK, &list(".Values.webhook.clientNames"))
        .replace(ENVIRONMENT_MARK, "{{ toJson .Values.environment }}")
        .replace(API_SERVERS_MARK, "{{ toJson .Values.webhook.apiServers }}")
        .replace(
            &REPLICAS_MARK.to_string(),
            &word("replicas", ".Values.replicas"),
        )
}

fn chart() -> String {
    let (major, minor) = OLDEST_KUBERNETES;
    format!(
        "{WRITTEN}apiVersion: v2
name: medley
description: One operator for heterogeneous Kubernetes clusters
type: application
version: {VERSION}
appVersion: \"{VERSION}\"
# Cloud providers append suffixes to versions.
kubeVersion: \">={major}.{minor}.0-0\"
home: {HOME}
sources:
- {HOME}
keywords:
- multi-arch
- kubevirt
- operator
"
    )
}

fn values() -> String {
    let Options { replicas, .. } = Options::default();
    let mut jobs = String::new();
    for job in Job::STANDARD {
        let _ = writeln!(jobs, "- {job}");
    }
    let others = Job::ALL.iter().filter(|job| !Job::STANDARD.contains(job));
    let others: Vec<&str> = others.map(|job| job.name()).collect();
    format!(
        "{WRITTEN}
# The image of the operator and of the admission webhooks.
image: {IMAGE}

# Number of operator replicas. One leads, the others stand by.
replicas: {replicas}

# The controllers to run. Also available: {}.
# The images controllers replace upstream operators: enable them only where those do not run.
controllers:
{jobs}
# Governance profiles that are off by default, such as node-health-remediation.
profiles: []

# Let the operator manage the ClusterVersion: only where no cluster version operator does.
releaseOwner: false

# Let the operator read releases that are kept as ConfigMaps in openshift-cluster-version. The namespace has to exist.
releasePayloads: false
# Read the CA certificates of proxies and registries in openshift-config. The namespace has to exist.
openshiftConfig: false

openshift:
  # The cluster is OpenShift: add constraints for importer pods, a route to the console, certificates of the service CA,
  # and the annotations of workload partitioning; also sets openshiftConfig.
  enabled: false
  # Do so where the cluster has the kinds of OpenShift.
  detect: true

# Let placement read the pull secrets of pods and their service accounts: get on all Secrets. Without it, policies
# name the secrets in spec.pullSecrets (Named, with a Role in each namespace) or use none (None).
pullSecrets: true

# Environment variables of the operator and the webhooks, in a Secret: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, for instance.
environment: {{}}

console:
  # Serve the web console. Users sign in with their own tokens; it has no permissions of its own.
  enabled: false
  # Host names of the console, behind an ingress or a route that terminates TLS, or with tls.
  hosts: []
  # Serve TLS with the certificate in Secret medley-console-tls (tls.crt, tls.key), which has to exist.
  # On OpenShift it is created.
  tls: false
  oidc:
    # URL of an OpenID Connect provider where users can sign in; the API server has to accept its ID tokens.
    issuer: \"\"
    # Client ID of the console there. Secret medley-console-oidc has its client-secret; an empty one for a
    # public client.
    clientId: \"\"
    # Whether that Secret also has the CA certificates of the provider, as ca.crt.
    ca: false

webhook:
  # Common names of the client certificates that API servers present to webhooks.
  # Default: those that kube-system/extension-apiserver-authentication allows for proxies.
  clientNames: []
  # Reject reviews of callers without such a certificate. Only where API servers present one.
  requireClientCert: false
  # NetworkPolicy peers that may reach the webhook, such as ipBlock: {{cidr: 10.0.0.0/28}}; all if empty.
  apiServers: []

monitoring:
  # Add ServiceMonitors and alerts. The CRDs of the Prometheus Operator have to be installed.
  enabled: false

crds:
  # Install and upgrade the CRDs of Medley. They stay when the chart is uninstalled.
  install: true
",
        others.join(", ")
    )
}

/// JSON Schema of the values.
fn schema() -> Result<Value, Error> {
    let jobs: Vec<&str> = Job::ALL.iter().map(|job| job.name()).collect();
    let boolean = |description: &str| json!({ "type": "boolean", "description": description });
    let only = |properties: Value| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let mut schema = only(json!({
        "image": {
            "type": "string", "minLength": 1, "pattern": "^\\S+$",
            "description": "The image of the operator and of the admission webhooks.",
        },
        "replicas": {
            "type": "integer", "minimum": 1,
            "description": "Number of operator replicas.",
        },
        "controllers": {
            "type": "array", "minItems": 1, "uniqueItems": true,
            "items": { "type": "string", "enum": jobs },
            "description": "What runs.",
        },
        "profiles": {
            "type": "array", "uniqueItems": true,
            "items": { "type": "string", "enum": rbac::optional_profiles()? },
            "description": "Governance profiles that are off by default.",
        },
        "releaseOwner": boolean("Let the operator manage the ClusterVersion."),
        "openshiftConfig": boolean("Let controllers and webhooks read the CA certificates of proxies and registries in openshift-config."),
        "openshift": only(json!({
            "enabled": boolean("The cluster is OpenShift."),
            "detect": boolean("Add what OpenShift needs where the cluster has its kinds."),
        })),
        "releasePayloads": boolean("Let the operator read releases that are kept as ConfigMaps."),
        "pullSecrets": boolean("Let placement read the pull secrets of pods."),
        "environment": {
            "type": "object",
            "additionalProperties": { "type": "string" },
            "description": "Environment variables of the operator and the webhooks, such as HTTPS_PROXY.",
        },
        "console": only(json!({
            "enabled": boolean("Serve the web console."),
            "hosts": {
                "type": "array", "uniqueItems": true,
                "items": { "type": "string", "minLength": 1 },
                "description": "Host names of the console, behind TLS.",
            },
            "tls": boolean("Serve TLS with the certificate in Secret medley-console-tls."),
            "oidc": only(json!({
                "issuer": {
                    "type": "string", "pattern": "^\\S*$",
                    "description": "URL of an OpenID Connect provider where users can sign in.",
                },
                "clientId": {
                    "type": "string", "pattern": "^\\S*$",
                    "description": "Client ID of the console there.",
                },
                "ca": boolean("Whether Secret medley-console-oidc has the CA certificates of the provider, as ca.crt."),
            })),
        })),
        "webhook": only(json!({
            "clientNames": {
                "type": "array", "uniqueItems": true,
                "items": { "type": "string", "minLength": 1 },
                "description": "Common names of API servers' client certificates.",
            },
            "requireClientCert": boolean("Reject reviews of callers without such a certificate."),
            "apiServers": {
                "type": "array",
                "items": { "type": "object" },
                "description": "Peers of the NetworkPolicy that reach the webhook; all if empty.",
            },
        })),
        "monitoring": only(json!({
            "enabled": boolean("Add ServiceMonitors and alerts for the Prometheus Operator."),
        })),
        "crds": only(json!({ "install": boolean("Install the CRDs of Medley.") })),
        // Helm sets it for charts that include this one.
        "global": { "type": "object" },
    }));
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["required"] = json!(["image", "replicas", "controllers"]);
    Ok(schema)
}

fn notes() -> String {
    format!(
        "Medley {{{{ .Chart.AppVersion }}}} is installed in namespace {{{{ .Release.Namespace }}}}.

Check the installation:

  kubectl -n {{{{ .Release.Namespace }}}} rollout status deployment/{ACCOUNT} deployment/{WEBHOOK}
  medley check --namespace {{{{ .Release.Namespace }}}}
  medley status
{{{{- if .Values.console.enabled }}}}

Open the console:

  kubectl -n {{{{ .Release.Namespace }}}} port-forward service/{CONSOLE} 8080:{{{{ if .Values.console.tls }}}}443{{{{ end }}}}{{{{ if not .Values.console.tls }}}}80{{{{ end }}}}
{{{{- end }}}}
{{{{- if {OPENSHIFT} }}}}

Helm does not label namespaces. Let OpenShift's Prometheus scrape this one, and let the pods run on reserved CPUs:

  kubectl label namespace {{{{ .Release.Namespace }}}} openshift.io/cluster-monitoring=true
  kubectl annotate namespace {{{{ .Release.Namespace }}}} workload.openshift.io/allowed=management
{{{{- end }}}}

There can be only one installation per cluster: CRDs and cluster roles are shared. The default
namespace is {NAMESPACE}; name another one to the medley commands with --namespace.
"
    )
}
