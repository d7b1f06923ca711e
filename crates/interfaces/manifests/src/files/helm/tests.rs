mod evaluate;

use std::collections::BTreeSet;

use super::*;
use crate::objects;
use evaluate::render;

fn chart_files() -> Files {
    files().unwrap()
}

fn default_values() -> Value {
    serde_saphyr::from_str(&values()).unwrap()
}

/// The rendered templates: objects by kind and name.
fn rendered(values: &Value, namespace: &str) -> BTreeMap<String, Value> {
    rendered_on(values, namespace, &[])
}

fn rendered_on(values: &Value, namespace: &str, apis: &[&str]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (path, text) in chart_files() {
        if !path.contains("/templates/") || path.ends_with("NOTES.txt") {
            continue;
        }
        let text = render(&text, values, namespace, apis);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for mut object in documents.into_iter().filter(|it| !it.is_null()) {
            let metadata = object["metadata"].as_object_mut().unwrap();
            if let Some(annotations) = metadata.get_mut("annotations") {
                let annotations = annotations.as_object_mut().unwrap();
                annotations.remove("helm.sh/resource-policy");
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
            let before = found.insert(key(&object), object);
            assert_eq!(before, None);
        }
    }
    found
}

/// The output of `medley manifests` without the namespace.
fn printed(options: &Options) -> BTreeMap<String, Value> {
    let objects = objects(options).unwrap().into_iter();
    let objects = objects.filter(|object| object.part != Part::Namespace);
    objects
        .map(|object| (key(&object.value), object.value))
        .collect()
}

fn key(object: &Value) -> String {
    format!("{} {}", object["kind"], object["metadata"]["name"])
}

#[track_caller]
fn assert_same(values: &Value, options: &Options) {
    let (rendered, printed) = (rendered(values, &options.namespace), printed(options));
    let keys = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&rendered), keys(&printed));
    for (key, object) in rendered {
        assert_eq!(object, printed[&key], "{key}");
    }
}

#[test]
fn chart_matches_manifests_with_defaults() {
    assert_same(&default_values(), &Options::default());
}

#[test]
fn chart_matches_manifests_with_everything_enabled() {
    let values = json!({
        "image": "registry.local/medley@sha256:0123",
        "replicas": 3,
        "controllers": Job::ALL.iter().map(|job| job.name()).collect::<Vec<_>>(),
        "profiles": ["example-profile", "node-health-remediation"],
        "releaseOwner": true,
        "openshiftConfig": true,
        "openshift": { "enabled": true, "detect": true },
        "releasePayloads": true,
        "pullSecrets": true,
        "environment": { "HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": ".svc" },
        "console": {
            "enabled": true, "hosts": ["medley.example.com", "medley.example.org"], "tls": true,
            "oidc": { "issuer": "https://id.example.com/medley", "clientId": "medley", "ca": true },
        },
        "webhook": {
            "clientNames": ["front-proxy-client", "kube-apiserver"],
            "requireClientCert": true,
            "apiServers": [
                { "ipBlock": { "cidr": "10.0.0.0/28" } },
                { "ipBlock": { "cidr": "fd00::/64" } },
            ],
        },
        "monitoring": { "enabled": true },
        "crds": { "install": true },
    });
    let options = Options {
        namespace: "1234".to_owned(),
        image: "registry.local/medley@sha256:0123".to_owned(),
        replicas: 3,
        jobs: Job::ALL.iter().copied().collect(),
        profiles: ["example-profile", "node-health-remediation"]
            .map(str::to_owned)
            .into(),
        release_owner: true,
        openshift_config: true,
        openshift: true,
        release_payloads: true,
        pull_secrets: crate::PullSecrets::Pods,
        console: true,
        console_hosts: vec![
            "medley.example.com".to_owned(),
            "medley.example.org".to_owned(),
        ],
        console_tls: true,
        console_oidc: Some(crate::ConsoleOidc {
            issuer: "https://id.example.com/medley".to_owned(),
            client_id: "medley".to_owned(),
            has_ca: true,
        }),
        monitoring: true,
        client_names: ["front-proxy-client", "kube-apiserver"]
            .map(str::to_owned)
            .into(),
        require_client_cert: true,
        environment: [
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("NO_PROXY", ".svc"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        api_server_cidrs: ["10.0.0.0/28", "fd00::/64"].map(str::to_owned).into(),
    };
    assert_same(&values, &options);
}

#[test]
fn chart_matches_manifests_with_a_plain_console() {
    let mut values = default_values();
    values["console"]["enabled"] = json!(true);
    let options = Options {
        console: true,
        ..Options::default()
    };
    assert_same(&values, &options);
}

#[test]
fn chart_matches_manifests_with_little_enabled() {
    let mut values = default_values();
    values["controllers"] = json!(["release"]);
    values["profiles"] = json!(["example-profile"]);
    values["replicas"] = json!(1);
    let options = Options {
        jobs: [Job::Release].into(),
        profiles: ["example-profile".to_owned()].into(),
        replicas: 1,
        ..Options::default()
    };
    assert_same(&values, &options);
}

#[test]
fn pull_secrets_can_be_left_out() {
    let mut values = default_values();
    values["controllers"] = json!(["placement"]);
    values["pullSecrets"] = json!(false);
    let options = Options {
        jobs: [Job::Placement].into(),
        pull_secrets: crate::PullSecrets::None,
        ..Options::default()
    };
    assert_same(&values, &options);
    let all = serde_json::to_string(&rendered(&values, NAMESPACE)).unwrap();
    assert!(!all.contains("pull-secrets"), "{all}");
}

#[test]
fn crds_can_be_left_out() {
    let mut values = default_values();
    values["crds"]["install"] = json!(false);
    let found = rendered(&values, NAMESPACE);
    assert!(
        !found
            .keys()
            .any(|key| key.contains("CustomResourceDefinition"))
    );
    assert!(found.keys().any(|key| key.contains("Deployment")));
}

#[test]
fn schema_accepts_defaults_and_rejects_invalid_values() {
    let schema = schema().unwrap();
    assert_eq!(wrong(&schema, &default_values(), ""), Vec::<String>::new());
    for (path, value, what) in [
        ("/controllers", json!(["knitting"]), "/controllers/0"),
        ("/controllers", json!([]), "/controllers"),
        ("/replicas", json!(0), "/replicas"),
        ("/replicas", json!("2"), "/replicas"),
        ("/image", json!(""), "/image"),
        ("/console", json!({ "enabld": true }), "/console/enabld"),
        (
            "/console/oidc",
            json!({ "client": "a" }),
            "/console/oidc/client",
        ),
        ("/profiles", json!(["nothing"]), "/profiles/0"),
    ] {
        let mut values = default_values();
        *values.pointer_mut(path).unwrap() = value;
        assert_eq!(wrong(&schema, &values, ""), [what], "{values}");
    }
    let mut values = default_values();
    values.as_object_mut().unwrap().remove("image");
    assert_eq!(wrong(&schema, &values, ""), ["/image"]);
    // Every value is documented with its default.
    let known = schema["properties"].as_object().unwrap().keys();
    let known: BTreeSet<_> = known.filter(|key| *key != "global").cloned().collect();
    let shown: BTreeSet<_> = default_values()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(known, shown);
}

/// Paths that a schema rejects, by the subset of JSON Schema that it uses.
fn wrong(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (word, wanted) in schema.as_object().unwrap() {
        let size = |least: &Value, size: usize| size as u64 >= least.as_u64().unwrap();
        let fine = match word.as_str() {
            "type" => match wanted.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64(),
                other => panic!("type {other}"),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            "minLength" => value.as_str().is_none_or(|it| size(wanted, it.len())),
            "minItems" => value.as_array().is_none_or(|it| size(wanted, it.len())),
            "minimum" => value.as_u64() >= wanted.as_u64() || !value.is_number(),
            "uniqueItems" => {
                let items = value.as_array().unwrap();
                let distinct: BTreeSet<String> = items.iter().map(Value::to_string).collect();
                distinct.len() == items.len()
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(wrong(wanted, item, &format!("{path}/{at}")));
                }
                true
            }
            "properties" => {
                for (key, part) in value.as_object().into_iter().flatten() {
                    match wanted.get(key) {
                        Some(schema) => {
                            found.extend(wrong(schema, part, &format!("{path}/{key}")));
                        }
                        None => found.push(format!("{path}/{key}")),
                    }
                }
                true
            }
            "required" => {
                for key in wanted.as_array().unwrap() {
                    let key = key.as_str().unwrap();
                    if value.get(key).is_none() {
                        found.push(format!("{path}/{key}"));
                    }
                }
                true
            }
            "additionalProperties" if wanted.is_object() => {
                for (key, part) in value.as_object().into_iter().flatten() {
                    found.extend(wrong(wanted, part, &format!("{path}/{key}")));
                }
                true
            }
            "additionalProperties" => *wanted == json!(false),
            "$schema" | "description" | "pattern" => true,
            other => panic!("the schema says {other}"),
        };
        if !fine && !found.contains(&path.to_owned()) {
            found.push(path.to_owned());
        }
    }
    found
}

#[test]
fn notes_are_filled() {
    let text = render(&notes(), &default_values(), "here", &[]);
    assert!(text.contains("in namespace here."), "{text}");
    assert!(!text.contains("port-forward"), "{text}");
    let mut values = default_values();
    values["console"]["enabled"] = json!(true);
    let text = render(&notes(), &values, "here", &[]);
    assert!(
        text.contains("-n here port-forward service/medley-console 8080:80\n"),
        "{text}"
    );
    assert!(!text.contains("OpenShift"), "{text}");
    values["console"]["tls"] = json!(true);
    let text = render(&notes(), &values, "here", &["security.openshift.io/v1"]);
    assert!(
        text.contains("port-forward service/medley-console 8080:443\n"),
        "{text}"
    );
    assert!(text.contains("kubectl label namespace here"), "{text}");
}

#[test]
fn openshift_is_detected_by_its_kinds() {
    let mut values = default_values();
    values["monitoring"]["enabled"] = json!(true);
    let apis = ["security.openshift.io/v1"];
    let options = Options {
        openshift: true,
        monitoring: true,
        ..Options::default()
    };
    assert_eq!(rendered_on(&values, NAMESPACE, &apis), printed(&options));
    values["openshift"]["detect"] = json!(false);
    let options = Options {
        openshift: false,
        ..options
    };
    assert_eq!(rendered_on(&values, NAMESPACE, &apis), printed(&options));
}
