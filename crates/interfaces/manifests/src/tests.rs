mod containerfile;
mod openshift;

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn printed(options: &Options) -> Vec<Object> {
    objects(options).unwrap()
}

fn names(objects: &[Object], kind: &str) -> BTreeSet<String> {
    let of_kind = objects.iter().filter(|object| object.value["kind"] == kind);
    let names = of_kind.map(|object| object.value["metadata"]["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

fn everything() -> Options {
    Options {
        jobs: Job::ALL.iter().copied().collect(),
        profiles: ["node-health-remediation".to_owned()].into(),
        release_owner: true,
        release_payloads: true,
        openshift_config: true,
        openshift: true,
        console: true,
        console_hosts: vec!["medley.example.com".to_owned()],
        console_tls: true,
        console_oidc: Some(ConsoleOidc {
            issuer: "https://id.example.com".to_owned(),
            client_id: "medley".to_owned(),
            has_ca: true,
        }),
        monitoring: true,
        ..Options::default()
    }
}

#[test]
fn prerequisites_come_first() {
    for options in [Options::default(), everything()] {
        let parts: Vec<Part> = printed(&options).iter().map(|it| it.part).collect();
        assert!(parts.is_sorted(), "{parts:?}");
    }
}

#[test]
fn monitoring_crds_are_used_only_on_request() {
    let foreign = |options: &Options| {
        let objects = printed(options).into_iter();
        let groups = objects.map(|it| it.value["apiVersion"].as_str().unwrap().to_owned());
        groups.filter(|it| it.contains("coreos.com")).count()
    };
    assert_eq!(foreign(&Options::default()), 0);
    // Metrics of both processes, and the alerts of all five jobs.
    assert_eq!(foreign(&everything()), 7);
    let few = Options {
        monitoring: true,
        ..Options::default()
    };
    assert_eq!(foreign(&few), 5);
}

#[test]
fn objects_are_in_the_chosen_namespace() {
    let options = Options {
        namespace: "elsewhere".to_owned(),
        ..everything()
    };
    for object in printed(&options) {
        let text = object.value.to_string();
        assert!(!text.contains(NAMESPACE), "{text}");
    }
    let bindings = printed(&options);
    let bindings = bindings
        .iter()
        .filter(|it| it.value["kind"].as_str().unwrap().ends_with("Binding"))
        // OpenShift's account, in its own namespace.
        .filter(|it| it.value["metadata"]["name"] != PROMETHEUS);
    for binding in bindings {
        assert_eq!(binding.value["subjects"][0]["namespace"], "elsewhere");
    }
}

#[test]
fn every_binding_has_its_role_and_its_account() {
    let objects = printed(&everything());
    for kind in ["ClusterRole", "Role"] {
        let roles = names(&objects, kind);
        let accounts = names(&objects, "ServiceAccount");
        for object in &objects {
            if object.value["kind"] == format!("{kind}Binding") {
                let role = object.value["roleRef"]["name"].as_str().unwrap();
                assert!(roles.contains(role), "{role}");
                let account = object.value["subjects"][0]["name"].as_str().unwrap();
                let is_ours = role != PROMETHEUS;
                assert!(!is_ours || accounts.contains(account), "{account}");
            }
        }
    }
}

#[test]
fn rbac_rules_are_those_of_the_running_jobs() {
    let roles = |jobs: &[Job]| {
        let options = Options {
            jobs: jobs.iter().copied().collect(),
            ..Options::default()
        };
        let bound = names(&printed(&options), "ClusterRoleBinding");
        bound.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        roles(Job::STANDARD),
        [
            "medley-operator-cpu-models",
            "medley-operator-governance",
            "medley-operator-release",
            "medley-webhook-callers",
            "medley-webhook-cpu-models",
            "medley-webhook-governance",
        ]
    );
    assert_eq!(
        roles(&[Job::ImagesSsp, Job::ImagesVm]),
        [
            "medley-operator-images-ssp",
            "medley-operator-images-vm",
            "medley-webhook-callers",
            "medley-webhook-images",
        ]
    );
    assert_eq!(
        roles(&[Job::RuntimeClasses]),
        ["medley-operator-runtime-classes"]
    );
    // Pull secrets are a role of their own.
    assert_eq!(
        roles(&[Job::Placement]),
        [
            "medley-operator-placement",
            "medley-operator-placement-pull-secrets",
            "medley-webhook-callers",
            "medley-webhook-placement",
            "medley-webhook-placement-pull-secrets",
        ]
    );
    // Without webhooks there is nothing to deploy.
    let options = Options {
        jobs: [Job::RuntimeClasses].into(),
        ..Options::default()
    };
    let alone = names(&printed(&options), "Deployment");
    assert_eq!(alone, [ACCOUNT.to_owned()].into());
}

#[test]
fn profile_adds_its_rules_with_governance() {
    let with = |jobs: &[Job]| {
        let options = Options {
            jobs: jobs.iter().copied().collect(),
            profiles: ["node-health-remediation".to_owned()].into(),
            ..Options::default()
        };
        let objects = printed(&options);
        let role = "medley-operator-node-health-remediation".to_owned();
        let has = names(&objects, "ClusterRole").contains(&role);
        let text = serde_json::to_string(&deployment(&objects, ACCOUNT)).unwrap();
        (
            has,
            text.contains("--enable-profile=node-health-remediation"),
        )
    };
    assert_eq!(with(&[Job::Governance]), (true, true));
    assert_eq!(with(&[Job::Release]), (false, false));
}

fn deployment(objects: &[Object], name: &str) -> Value {
    let found = objects.iter().find(|object| {
        object.value["kind"] == "Deployment" && object.value["metadata"]["name"] == name
    });
    found.unwrap().value.clone()
}

#[test]
fn workloads_meet_the_restricted_pod_security_standard() {
    let objects = printed(&everything());
    let level = &objects[0].value["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(level, "restricted");
    for name in [ACCOUNT, WEBHOOK] {
        let pod = &deployment(&objects, name)["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        for container in pod["containers"].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
            assert_eq!(context["readOnlyRootFilesystem"], true);
        }
    }
}

#[rstest]
#[case(Options { namespace: "Not A Name".to_owned(), ..Options::default() }, "Not A Name")]
#[case(Options { image: String::new(), ..Options::default() }, "is not an image")]
#[case(Options { jobs: BTreeSet::new(), ..Options::default() }, "no controllers")]
#[case(Options { replicas: 0, ..Options::default() }, "0 replicas")]
#[case(Options { profiles: ["knitting".to_owned()].into(), ..Options::default() }, "knitting")]
#[case(Options { console_hosts: vec!["a".to_owned()], ..Options::default() }, "console")]
#[case(Options { console_tls: true, ..Options::default() }, "the console has a certificate")]
fn invalid_input_is_rejected(#[case] options: Options, #[case] why: &str) {
    let error = objects(&options).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn every_part_can_be_named() {
    for part in Part::ALL {
        assert_eq!(part.name().parse(), Ok(*part));
    }
    let error = "everything".parse::<Part>().unwrap_err();
    assert!(error.contains("crds"), "{error}");
}

#[test]
fn deploy_has_the_expected_files() {
    let files = files().unwrap();
    for path in [
        "crds/virtplatformconfigs.yaml",
        "operator.yaml",
        "rbac/operator.yaml",
        "rbac/webhook.yaml",
        "rbac/users.yaml",
        "optional/placement.yaml",
        "optional/node-health-remediation.yaml",
        "monitoring/alerts.yaml",
        "kustomize/base/kustomization.yaml",
        "helm/medley/Chart.yaml",
        "olm/manifests/medley.clusterserviceversion.yaml",
        "krew/medley.yaml",
    ] {
        assert!(files.contains_key(path), "{path}");
    }
    // No placeholder is left anywhere.
    for (path, text) in files {
        assert!(!text.contains("x-medley-"), "{path}");
    }
}

#[test]
fn dashboard_names_are_unique() {
    let names: BTreeSet<_> = DASHBOARDS
        .iter()
        .map(|dashboard| dashboard.config_map("here")["metadata"]["name"].to_string())
        .collect();
    assert_eq!(names.len(), DASHBOARDS.len());
}

/// Rules of ClusterRoles bound to the accounts of an installation.
fn cluster_wide(options: &Options) -> Vec<Value> {
    let people = user_roles();
    let people: BTreeSet<String> = people.filter_map(|it| it.metadata.name).collect();
    let objects = printed(options).into_iter().map(|it| it.value);
    let roles = objects.filter(|it| it["kind"] == "ClusterRole");
    let roles = roles.filter(|it| !people.contains(it["metadata"]["name"].as_str().unwrap()));
    roles
        .flat_map(|it| it["rules"].as_array().cloned().unwrap_or_default())
        .collect()
}

fn about<'a>(rules: &'a [Value], resource: &str) -> Vec<&'a Value> {
    let named = |it: &&Value| {
        let resources = it["resources"].as_array();
        resources.is_some_and(|all| all.iter().any(|it| it == resource))
    };
    rules.iter().filter(named).collect()
}

#[test]
fn no_account_lists_config_maps_or_secrets_of_the_whole_cluster() {
    let rules = cluster_wide(&everything());
    for resource in ["configmaps", "secrets"] {
        for rule in about(&rules, resource) {
            let named = rule["resourceNames"].is_array();
            assert!(
                named || rule["verbs"] == serde_json::json!(["get"]),
                "{rule}"
            );
        }
    }
    let standard = cluster_wide(&Options::default());
    let named = |rule: &&Value| rule["resourceNames"].is_array();
    assert!(about(&standard, "configmaps").iter().all(named));
    assert_eq!(about(&standard, "secrets"), Vec::<&Value>::new());
}

#[test]
fn releases_are_read_by_a_role_in_their_namespace() {
    let place = |options: &Options| -> Vec<String> {
        let objects = printed(options).into_iter().map(|it| it.value);
        let there = objects.filter(|it| it["metadata"]["namespace"] == "openshift-cluster-version");
        there
            .map(|it| format!("{} {}", it["kind"], it["metadata"]["name"]))
            .collect()
    };
    // Only OpenShift has the namespace, and Helm fails on an object in a namespace that does not
    // exist.
    assert_eq!(place(&Options::default()), Vec::<String>::new());
    let options = Options {
        release_payloads: true,
        ..Options::default()
    };
    assert_eq!(
        place(&options),
        [
            r#""Role" "medley-operator-release-payloads""#,
            r#""RoleBinding" "medley-operator-release-payloads""#,
        ]
    );
}

#[test]
fn certificates_of_openshift_are_read_by_a_role_in_their_namespace() {
    let there = |options: &Options| -> Vec<Value> {
        let objects = printed(options).into_iter().map(|it| it.value);
        let there = objects.filter(|it| it["metadata"]["namespace"] == "openshift-config");
        there.collect()
    };
    assert!(there(&Options::default()).is_empty());
    let options = Options {
        openshift_config: true,
        ..Options::default()
    };
    let objects = there(&options);
    let rules = &objects[0]["rules"];
    assert_eq!(rules[0]["resources"], json!(["configmaps"]));
    assert_eq!(rules[0]["verbs"], json!(["get"]));
    let subjects = objects[1]["subjects"].as_array().unwrap();
    let accounts: Vec<_> = subjects
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(accounts, [ACCOUNT, WEBHOOK]);
    // No job of these reads registries.
    let options = Options {
        jobs: [Job::Governance].into(),
        ..options
    };
    assert!(there(&options).is_empty());
}

#[test]
fn pull_secrets_can_be_left_out_or_named() {
    let with = |pull_secrets: &str| {
        let options = Options {
            jobs: [Job::Placement].into(),
            pull_secrets: pull_secrets.parse().unwrap(),
            ..Options::default()
        };
        let rules = cluster_wide(&options);
        let objects = printed(&options).into_iter().map(|it| it.value);
        let named: Vec<Value> = objects
            .filter(|it| it["metadata"]["name"] == NAMED_SECRETS)
            .collect();
        (about(&rules, "secrets").len(), named)
    };
    assert_eq!(with("pods"), (2, Vec::new()));
    assert_eq!(with("none"), (0, Vec::new()));
    let (rules, named) = with("vault/b,vault/a,other/c");
    assert_eq!((rules, named.len()), (0, 4));
    let vault: Vec<&Value> = named
        .iter()
        .filter(|it| it["metadata"]["namespace"] == "vault")
        .collect();
    assert_eq!(
        vault[0]["rules"],
        serde_json::json!([{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"] }])
    );
    let subjects = vault[1]["subjects"].as_array().unwrap();
    let subjects: Vec<&Value> = subjects.iter().map(|it| &it["name"]).collect();
    assert_eq!(subjects, [ACCOUNT, WEBHOOK]);
    for wrong in ["", "all", "a", "A/b", "a/b,", "a/b/c"] {
        let refused = wrong.parse::<PullSecrets>().unwrap_err();
        assert!(refused.contains("NAMESPACE/NAME"), "{refused}");
    }
}

/// The object of a kind and a name.
fn found(options: &Options, kind: &str, name: &str) -> Value {
    let mut objects = printed(options).into_iter().map(|it| it.value);
    let found = objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_default()
}

#[test]
fn probes_of_the_webhook_have_a_port_of_their_own_that_no_policy_opens() {
    let options = Options::default();
    let deployment = found(&options, "Deployment", WEBHOOK);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], 8082, "{probe}");
        assert_eq!(container[probe]["httpGet"]["scheme"], "HTTP", "{probe}");
    }
    let policy = found(&options, "NetworkPolicy", WEBHOOK);
    let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
    let open: Vec<&Value> = rules.map(|rule| &rule["ports"][0]["port"]).collect();
    assert_eq!(open, [9443, 8443]);
    // Metrics are for pods of the cluster.
    let peers = &policy["spec"]["ingress"][1]["from"];
    assert_eq!(*peers, json!([{ "namespaceSelector": {} }]));
}

#[test]
fn webhook_verifies_api_servers_with_published_cas() {
    let arguments = |options: &Options| {
        let deployment = found(options, "Deployment", WEBHOOK);
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    let has = |arguments: &Value, argument: &str| {
        arguments
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it == argument)
    };
    let usual = arguments(&Options::default());
    assert!(has(
        &usual,
        "--client-ca-configmap=kube-system/extension-apiserver-authentication"
    ));
    assert!(!has(&usual, "--require-client-cert"));
    let role = found(&Options::default(), "ClusterRole", "medley-webhook-callers");
    let rule = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
        "resourceNames": ["extension-apiserver-authentication"],
    }]);
    assert_eq!(role["rules"], rule);
    let strict = Options {
        client_names: vec!["kube-apiserver".to_owned()],
        require_client_cert: true,
        ..Options::default()
    };
    let strict = arguments(&strict);
    assert!(has(&strict, "--client-name=kube-apiserver"), "{strict}");
    assert!(has(&strict, "--require-client-cert"), "{strict}");
}

#[test]
fn environment_is_kept_in_a_secret_that_both_programs_read() {
    let with = |name: &str| Options {
        environment: [(name.to_owned(), "http://u:p@proxy.example:3128".to_owned())].into(),
        ..Options::default()
    };
    let options = with("HTTPS_PROXY");
    let secret = found(&options, "Secret", ENVIRONMENT);
    assert_eq!(
        secret["stringData"],
        json!({ "HTTPS_PROXY": "http://u:p@proxy.example:3128" })
    );
    for name in [ACCOUNT, WEBHOOK] {
        let deployment = found(&options, "Deployment", name);
        let pod = &deployment["spec"]["template"]["spec"];
        let source = json!([{ "secretRef": { "name": "medley-environment", "optional": true } }]);
        assert_eq!(pod["containers"][0]["envFrom"], source);
        let files = &pod["volumes"][0]["configMap"];
        assert_eq!(
            *files,
            json!({ "name": "medley-trusted-ca", "optional": true })
        );
    }
    for wrong in ["", "1A", "A-B", "A B", "Ä"] {
        let error = objects(&with(wrong)).unwrap_err().to_string();
        assert!(error.contains("environment variable"), "{wrong:?}: {error}");
    }
    let usual = objects(&Options::default()).unwrap();
    assert!(usual.iter().all(|it| it.value["kind"] != "Secret"));
}

#[test]
fn networks_of_api_servers_restrict_the_webhook() {
    let with = |cidr: &str| Options {
        api_server_cidrs: vec![cidr.to_owned()],
        ..Options::default()
    };
    let policy = found(&with("10.0.0.0/28"), "NetworkPolicy", WEBHOOK);
    let peers = &policy["spec"]["ingress"][0]["from"];
    assert_eq!(*peers, json!([{ "ipBlock": { "cidr": "10.0.0.0/28" } }]));
    for wrong in [
        "",
        "10.0.0.0",
        "10.0.0.0/33",
        "fd00::/129",
        "a/8",
        "10.0.0.0/-1",
    ] {
        let error = objects(&with(wrong)).unwrap_err();
        assert!(
            error.to_string().contains("10.0.0.0/28"),
            "{wrong}: {error}"
        );
    }
}
