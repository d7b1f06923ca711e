//! Rendered configurations and their sources.

use rstest::rstest;

use super::*;

fn config(name: &str, role: &str, spec: &Value) -> Arc<MachineConfig> {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": { "name": name, "labels": { ROLE_LABEL: role } },
        "spec": spec,
    });
    Arc::new(serde_json::from_value(config).unwrap())
}

fn pool(name: &str, roles: &[&str]) -> MachineConfigPool {
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": name },
        "spec": { "machineConfigSelector": { "matchExpressions": [
            { "key": ROLE_LABEL, "operator": "In", "values": roles },
        ] } },
    });
    serde_json::from_value(pool).unwrap()
}

fn arguments(list: &[&str]) -> Value {
    json!({ "kernelArguments": list })
}

fn names(rendered: &Rendered) -> Vec<&str> {
    let source = rendered.source.iter();
    source.filter_map(|it| it.name.as_deref()).collect()
}

#[test]
fn worker_configurations_come_first_then_by_name() {
    let configs = [
        config("10-infra", "infra", &arguments(&["a=infra"])),
        config("99-worker", "worker", &arguments(&["a=1", "b"])),
        config("00-worker", "worker", &arguments(&["a=0", "b"])),
        config("50-master", "master", &arguments(&["never"])),
    ];
    let rendered = render(&pool("infra", &["worker", "infra"]), &configs).unwrap();
    assert_eq!(names(&rendered), ["00-worker", "99-worker", "10-infra"]);
    // Repeated arguments are kept: the kernel uses the last.
    assert_eq!(
        rendered.spec.kernel_arguments.unwrap(),
        ["a=0", "b", "a=1", "b", "a=infra"]
    );
}

#[test]
fn rendered_name_is_derived_from_the_content() {
    let base = config("00-worker", "worker", &json!({}));
    let psi = config("99-psi", "worker", &arguments(&["psi=1"]));
    let other = config("98-other-name", "worker", &arguments(&["psi=1"]));
    let workers = pool("worker", &["worker"]);
    let name = |configs: &[Arc<MachineConfig>]| render(&workers, configs).unwrap().name;
    let with = name(&[base.clone(), psi.clone()]);
    assert_eq!(with, name(&[psi, base.clone()]), "the order of the list");
    assert_eq!(with, name(&[base.clone(), other]), "the name of a part");
    assert_ne!(with, name(std::slice::from_ref(&base)));
    assert!(with.starts_with("rendered-worker-") && with.len() == "rendered-worker-".len() + 32);
    let elsewhere = render(&pool("infra", &["worker"]), &[base]).unwrap();
    assert!(elsewhere.name.starts_with("rendered-infra-"));
}

#[test]
fn later_files_replace_and_units_merge() {
    let first = json!({ "config": {
        "ignition": { "version": "3.2.0" },
        "storage": { "files": [
            { "path": "/a", "mode": 420, "contents": { "source": "data:,1" } },
            { "path": "/b" },
        ] },
        "systemd": { "units": [{ "name": "u.service", "enabled": true, "contents": "old" }] },
    } });
    let second = json!({ "config": {
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [{ "path": "/a", "contents": { "source": "data:,2" } }, { "path": "/c" }] },
        "systemd": { "units": [{ "name": "u.service", "contents": "new" }] },
    } });
    let configs = [
        config("00-worker", "worker", &first),
        config("01-worker", "worker", &second),
    ];
    let rendered = render(&pool("worker", &["worker"]), &configs).unwrap();
    let config = rendered.spec.config.unwrap();
    assert_eq!(
        config["storage"]["files"],
        json!([{ "path": "/a", "contents": { "source": "data:,2" } }, { "path": "/b" }, { "path": "/c" }])
    );
    assert_eq!(
        config["systemd"]["units"],
        json!([{ "name": "u.service", "enabled": true, "contents": "new" }])
    );
    assert_eq!(config["ignition"]["version"], RENDERED_VERSION);
}

#[rstest]
#[case::no_version(json!({ "storage": {} }), "(none)")]
#[case::empty(json!({}), "(none)")]
#[case::unheard(json!({ "ignition": { "version": "4.0.0" } }), "\"4.0.0\"")]
#[case::almost(json!({ "ignition": { "version": "3.20.0" } }), "\"3.20.0\"")]
#[case::number(json!({ "ignition": { "version": 3 } }), "(none)")]
fn unsupported_ignition_is_rejected(#[case] wrong: Value, #[case] found: &str) {
    let wrong = config("99-wrong", "worker", &json!({ "config": wrong }));
    let error = render(&pool("worker", &["worker"]), &[wrong]).unwrap_err();
    assert!(
        error.contains("99-wrong") && error.contains(found),
        "{error}"
    );
}

#[test]
fn pool_without_configurations_is_not_rendered() {
    let error = render(&pool("infra", &["infra"]), &[]).unwrap_err();
    assert!(error.starts_with("no MachineConfigs found"), "{error}");
    // A pool without a selector selects nothing.
    let mut silent = pool("infra", &["infra"]);
    silent.spec.machine_config_selector = None;
    let all = [config("00-infra", "infra", &json!({}))];
    assert!(render(&silent, &all).is_err());
}

#[test]
fn fields_of_all_sources_are_merged() {
    let configs = [
        config(
            "00-worker",
            "worker",
            &json!({ "fips": true, "kernelType": "realtime", "extensions": ["usbguard"] }),
        ),
        config(
            "01-worker",
            "worker",
            &json!({ "fips": false, "kernelType": "", "extensions": ["usbguard", "ipsec"] }),
        ),
    ];
    let spec = render(&pool("worker", &["worker"]), &configs).unwrap().spec;
    assert_eq!(spec.fips, Some(true));
    assert_eq!(spec.kernel_type.as_deref(), Some("realtime"));
    assert_eq!(spec.extensions.unwrap(), ["usbguard", "ipsec"]);
}

#[rstest]
#[case(&["psi=1"], true)]
#[case(&["psi=0", "psi=1"], true)]
#[case(&["psi=1", "quiet", "psi=0"], false)]
#[case(&["xpsi=1"], false)]
#[case(&["psi=10"], false)]
#[case(&[], false)]
fn last_psi_argument_takes_effect(#[case] list: &[&str], #[case] expected: bool) {
    assert_eq!(has_psi(&config("r", "worker", &arguments(list))), expected);
}

#[test]
fn equivalent_foreign_rendering_is_kept() {
    let configs = [
        config("00-worker", "worker", &json!({})),
        config("99-psi", "worker", &arguments(&["psi=1"])),
    ];
    let ours = render(&pool("worker", &["worker"]), &configs).unwrap();
    let theirs = |list: &[&str]| config("rendered-worker-theirs", "", &arguments(list));
    let reversed: Vec<ObjectReference> = ours.source.iter().rev().cloned().collect();
    assert!(is_as_good(&theirs(&["psi=1"]), &reversed, &ours));
    assert!(!is_as_good(&theirs(&["psi=0"]), &reversed, &ours));
    assert!(!is_as_good(&theirs(&["psi=1"]), &reversed[1..], &ours));
    // A configuration rendered here is identified by its name alone.
    let mut before = MachineConfig::clone(&theirs(&["psi=1"]));
    before.metadata.annotations = Some([(SIMULATED.to_owned(), "true".to_owned())].into());
    assert!(!is_as_good(&before, &reversed, &ours));
}

/// Files and units count, too: a changed file has to reach the nodes.
#[test]
fn foreign_rendering_with_other_files_is_replaced() {
    let spec = |source: &str, unit: &str| {
        json!({ "config": {
            "ignition": { "version": "3.2.0" },
            "storage": { "files": [{ "path": "/a", "contents": { "source": source } }, { "path": "/b" }] },
            "systemd": { "units": [{ "name": "u.service", "contents": unit }] },
        } })
    };
    let configs = [config("00-worker", "worker", &spec("data:,1", "one"))];
    let ours = render(&pool("worker", &["worker"]), &configs).unwrap();
    let good = |source: &str, unit: &str| {
        let theirs = config("rendered-worker-theirs", "", &spec(source, unit));
        is_as_good(&theirs, &ours.source, &ours)
    };
    assert!(good("data:,1", "one"));
    assert!(!good("data:,2", "one"));
    assert!(!good("data:,1", "two"));
}
