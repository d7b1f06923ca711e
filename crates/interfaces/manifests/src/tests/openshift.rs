//! Objects and fields that only OpenShift has.

use serde_json::{Value, json};

use super::{deployment, everything, found, names, printed};
use crate::{ACCOUNT, CONSOLE, IMPORTER_CONSTRAINTS, Job, Options, WEBHOOK};

fn on_openshift() -> Options {
    Options {
        openshift: true,
        ..Options::default()
    }
}

#[test]
fn nothing_of_openshift_is_printed_elsewhere() {
    let options = Options {
        openshift: false,
        openshift_config: false,
        release_payloads: false,
        ..everything()
    };
    for object in printed(&options) {
        let groups = [
            "security.openshift.io",
            "route.openshift.io",
            "console.openshift.io",
        ];
        let group = object.value["apiVersion"].as_str().unwrap();
        assert!(!groups.iter().any(|it| group.starts_with(it)), "{group}");
        let metadata = &object.value["metadata"];
        let marks = [&metadata["labels"], &metadata["annotations"]];
        assert!(
            marks
                .iter()
                .all(|it| !it.to_string().contains("openshift.io"))
        );
    }
    let text = deployment(&printed(&options), ACCOUNT).to_string();
    assert!(!text.contains("target.workload.openshift.io"), "{text}");
    assert!(!text.contains("--metrics-tls-cert"), "{text}");
}

#[test]
fn importer_pods_fit_their_constraints_which_only_the_operator_may_use() {
    let options = Options {
        jobs: [Job::ImagesCdi].into(),
        ..on_openshift()
    };
    let constraints = found(&options, "SecurityContextConstraints", IMPORTER_CONSTRAINTS);
    assert_eq!(
        constraints["runAsUser"],
        json!({ "type": "MustRunAs", "uid": 107 })
    );
    assert_eq!(
        constraints["fsGroup"]["ranges"],
        json!([{ "min": 107, "max": 107 }])
    );
    for no in [
        "allowPrivilegedContainer",
        "allowPrivilegeEscalation",
        "allowHostNetwork",
        "allowHostDirVolumePlugin",
    ] {
        assert_eq!(constraints[no], false, "{no}");
    }
    let binding = found(&options, "ClusterRoleBinding", "medley-operator-importer");
    assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
    assert_eq!(binding["subjects"][0]["name"], ACCOUNT);
    let role = found(&options, "ClusterRole", "medley-operator-importer");
    assert_eq!(role["rules"][0]["verbs"], json!(["use"]));
    assert_eq!(
        role["rules"][0]["resourceNames"],
        json!([IMPORTER_CONSTRAINTS])
    );
    // Without imports there are no such pods.
    let without = names(&printed(&on_openshift()), "SecurityContextConstraints");
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn pods_name_no_user_so_that_they_get_one_of_their_namespace() {
    let objects = printed(&Options {
        openshift: true,
        ..everything()
    });
    for name in [ACCOUNT, WEBHOOK] {
        let pod = &deployment(&objects, name)["spec"]["template"];
        let text = pod.to_string();
        for field in ["runAsUser", "runAsGroup", "fsGroup", "seLinuxOptions"] {
            assert!(!text.contains(field), "{name}: {field}");
        }
        assert!(
            pod["metadata"]["annotations"]["target.workload.openshift.io/management"].is_string()
        );
    }
}

#[test]
fn namespace_is_monitored_and_may_hold_management_pods() {
    let namespace = &printed(&on_openshift())[0].value["metadata"];
    assert_eq!(
        namespace["labels"]["openshift.io/cluster-monitoring"],
        "true"
    );
    assert_eq!(
        namespace["annotations"]["workload.openshift.io/allowed"],
        "management"
    );
}

#[test]
fn metrics_have_certificates_of_the_service_ca_that_monitors_verify() {
    let options = Options {
        monitoring: true,
        ..on_openshift()
    };
    for name in [ACCOUNT, WEBHOOK] {
        let service = found(&options, "Service", name);
        let annotations = service["metadata"]["annotations"].as_object().unwrap();
        let secret = annotations.values().next().unwrap();
        let pod = deployment(&printed(&options), name)["spec"]["template"]["spec"].clone();
        let named = |list: &Value| {
            let mut list = list.as_array().unwrap().iter();
            list.find(|it| it["name"] == "metrics-tls").unwrap().clone()
        };
        assert_eq!(named(&pod["volumes"])["secret"]["secretName"], *secret);
        let container = &pod["containers"][0];
        let mount = named(&container["volumeMounts"]);
        let mounted = mount["mountPath"].as_str().unwrap();
        let arguments = container["args"].as_array().unwrap();
        let argument = json!(format!("--metrics-tls-cert={mounted}/tls.crt"));
        assert!(arguments.contains(&argument), "{arguments:?}");
        let monitor = found(&options, "ServiceMonitor", name);
        let tls = &monitor["spec"]["endpoints"][0]["tlsConfig"];
        assert_eq!(tls["insecureSkipVerify"], Value::Null);
        assert_eq!(tls["serverName"], format!("{name}.medley-system.svc"));
    }
    // Without monitors there is no Service for the operator, and its pods would wait for the Secret for ever.
    let pod = deployment(&printed(&on_openshift()), ACCOUNT).to_string();
    assert!(!pod.contains("metrics-tls"), "{pod}");
}

#[test]
fn console_with_host_names_has_a_route_and_a_menu_entry() {
    let options = Options {
        console: true,
        console_hosts: vec!["medley.apps.example.com".to_owned(), "other".to_owned()],
        ..on_openshift()
    };
    let route = found(&options, "Route", CONSOLE);
    assert_eq!(route["spec"]["host"], "medley.apps.example.com");
    assert_eq!(route["spec"]["to"]["name"], CONSOLE);
    let service = found(&options, "Service", CONSOLE);
    assert_eq!(
        route["spec"]["port"]["targetPort"],
        service["spec"]["ports"][0]["name"]
    );
    // The router terminates TLS, and the console has to know that.
    assert_eq!(route["spec"]["tls"]["termination"], "edge");
    let operator = deployment(&printed(&options), ACCOUNT).to_string();
    assert!(operator.contains("--console-behind-tls"), "{operator}");
    let link = found(&options, "ConsoleLink", "medley");
    assert_eq!(link["spec"]["href"], "https://medley.apps.example.com/");
    let without = Options {
        console_hosts: Vec::new(),
        ..options
    };
    assert_eq!(found(&without, "Route", CONSOLE), Value::Null);
}
