use super::*;

fn bundle() -> (Files, Value) {
    let files = files().unwrap();
    let version = &files["olm/manifests/medley.clusterserviceversion.yaml"];
    let version = serde_saphyr::from_str(version).unwrap();
    (files, version)
}

#[test]
fn the_bundle_grants_what_the_manifests_grant() {
    let (_, version) = bundle();
    let install = &version["spec"]["install"]["spec"];
    let mut granted: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for permission in install["clusterPermissions"].as_array().unwrap() {
        let rules = permission["rules"].as_array().unwrap();
        let account = text(&permission["serviceAccountName"]);
        granted.entry(account).or_default().extend(rules.clone());
    }
    let mut wanted: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for job in crate::Job::STANDARD {
        let role = crate::job_role(*job).unwrap();
        let rules = serde_json::to_value(role.rules).unwrap();
        let all = wanted.entry(crate::ACCOUNT.to_owned()).or_default();
        all.extend(rules.as_array().unwrap().clone());
        if let Some(role) = crate::webhook_role(*job) {
            let rules = serde_json::to_value(role.rules).unwrap();
            let all = wanted.entry(crate::WEBHOOK.to_owned()).or_default();
            all.extend(rules.as_array().unwrap().clone());
        }
    }
    let rules = serde_json::to_value(crate::callers_role().rules).unwrap();
    let all = wanted.entry(crate::WEBHOOK.to_owned()).or_default();
    all.extend(rules.as_array().unwrap().clone());
    let sorted = |all: BTreeMap<String, Vec<Value>>| -> BTreeMap<String, Vec<String>> {
        let all = all.into_iter();
        all.map(|(account, rules)| {
            let mut rules: Vec<String> = rules.iter().map(Value::to_string).collect();
            rules.sort();
            (account, rules)
        })
        .collect()
    };
    assert_eq!(sorted(granted), sorted(wanted));
    let home = &install["permissions"];
    assert_eq!(home[0]["serviceAccountName"], crate::ACCOUNT);
    assert_eq!(home[0]["rules"][0]["resources"], json!(["leases"]));
    let names: Vec<&Value> = install["deployments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, [crate::ACCOUNT, crate::WEBHOOK]);
}

#[test]
fn bundle_has_catalogue_metadata() {
    let (files, version) = bundle();
    assert_eq!(version["metadata"]["name"], format!("medley.v{VERSION}"));
    assert_eq!(version["spec"]["version"], VERSION);
    assert_eq!(version["spec"]["relatedImages"][0]["image"], IMAGE);
    let gather = &version["metadata"]["annotations"]["operators.openshift.io/must-gather-image"];
    assert_eq!(gather, MUST_GATHER_IMAGE);
    assert_eq!(
        version["spec"]["relatedImages"][1]["image"],
        MUST_GATHER_IMAGE
    );
    let examples = text(&version["metadata"]["annotations"]["alm-examples"]);
    let examples: Vec<Value> = serde_json::from_str(&examples).unwrap();
    for owned in version["spec"]["customresourcedefinitions"]["owned"]
        .as_array()
        .unwrap()
    {
        let file = format!("olm/manifests/{}.yaml", text(&owned["name"]));
        assert!(files.contains_key(&file), "{file}");
        assert!(
            examples.iter().any(|it| it["kind"] == owned["kind"]),
            "an example of {}",
            owned["kind"]
        );
        assert!(owned["displayName"].is_string(), "{owned}");
    }
    let dockerfile = &files["olm/bundle.Dockerfile"];
    for (key, value) in annotations() {
        assert!(dockerfile.contains(&format!("LABEL {key}={value}\n")));
    }
}

#[test]
fn bundle_has_no_namespaces_or_accounts() {
    for (path, text) in files().unwrap() {
        if !path.starts_with("olm/manifests/") {
            continue;
        }
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(object["metadata"].get("namespace"), None, "{path}");
        let kind = object["kind"].as_str().unwrap();
        assert!(
            ![
                "ServiceAccount",
                "ClusterRoleBinding",
                "RoleBinding",
                "Namespace"
            ]
            .contains(&kind),
            "{path}: {kind}"
        );
    }
}
