use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{ACCOUNT, LEASE, NAMESPACE, WEBHOOK};

/// An object, by `apiVersion`, kind, namespace and name.
fn object(version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn home(version: &str, kind: &str, name: &str) -> Value {
    object(version, kind, Some(NAMESPACE), name)
}

fn namespace() -> Value {
    let mut namespace = object("v1", "Namespace", None, NAMESPACE);
    namespace["metadata"]["labels"] = json!({ PART_OF_LABEL: "medley" });
    namespace
}

const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";

/// An installation with one object of each kind of step.
fn installed() -> InstalledState {
    let group = "admissionregistration.k8s.io/v1";
    InstalledState {
        namespace: NAMESPACE.to_owned(),
        objects: vec![
            home("v1", "ServiceAccount", ACCOUNT),
            home("apps/v1", "Deployment", ACCOUNT),
            home("apps/v1", "Deployment", WEBHOOK),
            home("coordination.k8s.io/v1", "Lease", LEASE),
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                None,
                "a.medley.dev",
            ),
            object(
                group,
                "MutatingWebhookConfiguration",
                None,
                "medley-placement",
            ),
            namespace(),
        ],
        running: Vec::new(),
        gated: vec![ObjectRef::of(&object("v1", "Pod", Some("apps"), "web"))],
        machines: Vec::new(),
        instances: Vec::new(),
        defaults: Vec::new(),
        classes: Vec::new(),
        class_users: BTreeMap::new(),
        holders: Vec::new(),
        ssp_operator: false,
        cdi: false,
        advisor_operator: false,
        customs: Vec::new(),
        history: Vec::new(),
        inhabitants: Ok(vec![
            home("v1", "ServiceAccount", ACCOUNT),
            home("v1", "ConfigMap", "kube-root-ca.crt"),
        ]),
    }
}

fn planned(state: &InstalledState) -> UninstallPlan {
    plan(state, UninstallOptions::default())
}

/// Change and object of each step.
fn changes(plan: &UninstallPlan) -> Vec<String> {
    let steps = plan.steps.iter();
    steps
        .map(|it| format!("{} {}", it.change, it.object))
        .collect()
}

fn machine(name: &str, model: Option<&str>) -> VirtualMachine {
    let cpu = model.map(|model| json!({ "model": model }));
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "vms", "uid": name },
        "spec": { "template": { "spec": { "domain": { "cpu": cpu } } } },
    }))
    .unwrap()
}

fn instance(name: &str, model: &str, phase: &str) -> VirtualMachineInstance {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "vms",
            "annotations": {
                cpu_models::names::REQUESTED_MODEL_ANNOTATION: "best-match-model",
                cpu_models::names::MODEL_ANNOTATION: model,
            },
        },
        "spec": { "domain": { "cpu": { "model": model } } },
        "status": { "phase": phase },
    }))
    .unwrap()
}

#[test]
fn webhooks_go_before_programs_gates_and_permissions() {
    let plan = planned(&installed());
    assert_eq!(
        changes(&plan),
        [
            "delete MutatingWebhookConfiguration medley-placement",
            "delete Deployment medley-system/medley-operator",
            "delete Deployment medley-system/medley-webhook",
            "release Pod apps/web",
            "delete ServiceAccount medley-system/medley-operator",
            "delete Lease medley-system/medley",
            "delete Namespace medley-system",
        ]
    );
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    assert_eq!(plan.first_phase().len(), 1);
}

#[test]
fn interrupted_removal_is_planned_from_what_is_left() {
    let mut state = installed();
    state.objects.retain(|it| is_kind(it, "ServiceAccount"));
    state.gated.clear();
    assert_eq!(
        changes(&planned(&state)),
        ["delete ServiceAccount medley-system/medley-operator"]
    );
    state.objects.clear();
    assert!(changes(&planned(&state)).is_empty());
}

#[test]
fn gates_are_lifted_only_when_no_program_of_medley_runs() {
    let mut state = installed();
    state.objects.clear();
    state.running = vec![ObjectRef::of(&home("v1", "Pod", "medley-webhook-1"))];
    let plan = planned(&state);
    // The gates are a later phase.
    assert_eq!(plan.first_phase().len(), 1);
    assert_eq!(plan.first_phase()[0].change, Change::AwaitEnd);
    assert_eq!(plan.steps[1].phase, Phase::Gates);
}

#[test]
fn definitions_and_history_stay_unless_asked_for() {
    let mut state = installed();
    state.history = vec![ObjectRef::of(&home("apps/v1", "ControllerRevision", "h-1"))];
    let plan = planned(&state);
    let kept: Vec<&str> = plan.kept.iter().map(|it| it.objects.as_str()).collect();
    for expected in [
        "1 CustomResourceDefinitions, with 0 objects",
        "1 ControllerRevisions",
        "Namespace medley-system",
    ] {
        assert!(kept.contains(&expected), "{kept:?}");
    }
    let options = UninstallOptions {
        delete_crds: true,
        ..UninstallOptions::default()
    };
    let all = changes(&super::plan(&state, options));
    assert_eq!(
        all[all.len() - 3..],
        [
            "delete CustomResourceDefinition a.medley.dev",
            "delete ControllerRevision medley-system/h-1",
            "delete Namespace medley-system",
        ]
    );
}

#[rstest]
#[case::not_ours(
    object("v1", "Namespace", None, NAMESPACE),
    Ok(Vec::new()),
    "did not come with Medley"
)]
#[case::used(namespace(), Ok(vec![home("v1", "Secret", "mine")]), "Secret mine")]
#[case::unknown(namespace(), Err("forbidden".to_owned()), "forbidden")]
fn namespace_stays(
    #[case] of: Value,
    #[case] inhabitants: Result<Vec<Value>, String>,
    #[case] why: &str,
) {
    let mut state = installed();
    state.objects = vec![of];
    state.inhabitants = inhabitants;
    let plan = planned(&state);
    assert!(!changes(&plan).contains(&"delete Namespace medley-system".to_owned()));
    let kept = plan.kept.iter();
    let kept: Vec<&str> = kept.map(|it| it.reason.as_str()).collect();
    assert!(kept.iter().any(|it| it.contains(why)), "{kept:?}");
}

#[test]
fn dependents_do_not_keep_the_namespace() {
    let mut replicas = home("apps/v1", "ReplicaSet", "medley-operator-1");
    replicas["metadata"]["ownerReferences"] = json!([{ "kind": "Deployment" }]);
    let mut state = installed();
    state.inhabitants = Ok(vec![replicas, home("v1", "Event", "e")]);
    assert!(changes(&planned(&state)).contains(&"delete Namespace medley-system".to_owned()));
}

#[test]
fn best_match_models_are_fixed_or_kept_or_refused() {
    let mut state = installed();
    state.machines = vec![
        machine("running", Some("best-match-model")),
        machine("stopped", Some("best-match-model")),
        machine("fixed", Some("EPYC")),
        machine("plain", None),
    ];
    state.instances = vec![
        instance("running", "EPYC-Rome", "Running"),
        instance("stopped", "Opteron_G3", "Succeeded"),
        // Its model was fixed while it ran.
        instance("fixed", "EPYC", "Running"),
    ];
    let refused = planned(&state);
    assert!(matches!(
        refused.refusals[..],
        [UninstallRefusal::BestMatchModels { count: 2, .. }]
    ));
    let fix = UninstallOptions {
        fix_cpu_models: true,
        ..UninstallOptions::default()
    };
    let fixed = plan(&state, fix);
    assert!(fixed.refusals.is_empty(), "{:?}", fixed.refusals);
    let models: Vec<String> = changes(&fixed)
        .into_iter()
        .filter(|it| it.starts_with("set"))
        .collect();
    assert_eq!(
        models,
        [
            "set CPU model EPYC-Rome VirtualMachine vms/running",
            "set CPU model host-model VirtualMachine vms/stopped",
        ]
    );
    let keep = UninstallOptions {
        keep_cpu_models: true,
        ..UninstallOptions::default()
    };
    let kept = plan(&state, keep);
    assert!(kept.refusals.is_empty(), "{:?}", kept.refusals);
    assert!(kept.kept[0].reason.contains("vms/running, vms/stopped"));
}

#[test]
fn models_from_elsewhere_are_refused_even_with_fixing() {
    let mut state = installed();
    state.machines = vec![machine("typed", None)];
    state.instances = vec![instance("typed", "EPYC", "Running")];
    let fix = UninstallOptions {
        fix_cpu_models: true,
        ..UninstallOptions::default()
    };
    assert!(matches!(
        plan(&state, fix).refusals[..],
        [UninstallRefusal::InheritedModels(_)]
    ));
    let kubevirt = object("kubevirt.io/v1", "KubeVirt", Some("kubevirt"), "kubevirt");
    state.defaults = vec![ObjectRef::of(&kubevirt)];
    assert!(matches!(
        plan(&state, fix).refusals[..],
        [UninstallRefusal::DefaultModel(_)]
    ));
}

#[test]
fn architecture_without_host_model_gets_passthrough() {
    let mut arm = machine("arm", Some("best-match-model"));
    arm.spec.template.spec.architecture = Some("arm64".to_owned());
    let state = InstalledState {
        machines: vec![arm],
        ..installed()
    };
    let fix = UninstallOptions {
        fix_cpu_models: true,
        ..UninstallOptions::default()
    };
    let all = changes(&plan(&state, fix));
    let expected = "set CPU model host-passthrough VirtualMachine vms/arm".to_owned();
    assert!(all.contains(&expected), "{all:?}");
}

#[test]
fn runtime_classes_in_use_stay() {
    let class = |name: &str| ObjectRef::of(&object("node.k8s.io/v1", "RuntimeClass", None, name));
    let state = InstalledState {
        classes: vec![class("windows-17763"), class("windows-20348")],
        class_users: [("windows-17763".to_owned(), 3)].into(),
        ..installed()
    };
    let plan = planned(&state);
    let all = changes(&plan);
    assert!(all.contains(&"delete RuntimeClass windows-20348".to_owned()));
    assert!(!all.contains(&"delete RuntimeClass windows-17763".to_owned()));
    assert!(plan.kept[0].reason.contains("3 pods use it"));
}

#[rstest]
#[case::alone(&[FINALIZER, "other"], false, &["other"])]
#[case::handed_over(&[FINALIZER], true, &[UPSTREAM_FINALIZER])]
#[case::shared(&[FINALIZER, UPSTREAM_FINALIZER], true, &[UPSTREAM_FINALIZER])]
fn ssp_stays_deletable(#[case] before: &[&str], #[case] upstream: bool, #[case] after: &[&str]) {
    let mut ssp = object("ssp.kubevirt.io/v1beta3", "SSP", Some("kubevirt"), "ssp");
    ssp["metadata"]["finalizers"] = json!(before);
    let state = InstalledState {
        holders: vec![ssp],
        ssp_operator: upstream,
        ..installed()
    };
    let plan = planned(&state);
    let after = after.iter().map(|&it| it.to_owned()).collect();
    let expected = Change::SetFinalizers(after);
    assert!(plan.steps.iter().any(|it| it.change == expected));
}

#[test]
fn cron_keeps_the_finalizer_that_cdi_removes() {
    let mut cron = object("cdi.kubevirt.io/v1beta1", "DataImportCron", Some("i"), "c");
    cron["metadata"]["finalizers"] = json!([CRON_FINALIZER]);
    cron["metadata"]["managedFields"] = json!([{ "manager": IMPORTS }]);
    let with = |cdi: bool| {
        let state = InstalledState {
            holders: vec![cron.clone()],
            cdi,
            ..installed()
        };
        let plan = planned(&state);
        let mut steps = plan.steps.into_iter();
        steps.any(|it| matches!(it.change, Change::SetFinalizers(_)))
    };
    assert!(!with(true));
    assert!(with(false));
}

#[test]
fn helm_installation_is_prepared_for_helm() {
    let mut state = installed();
    for object in &mut state.objects {
        if ["Deployment", "ServiceAccount"].contains(&object["kind"].as_str().unwrap()) {
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm".into();
            object["metadata"]["annotations"] = json!({
                "meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "here",
            });
        }
    }
    state.inhabitants = Ok(state.objects[..3].to_vec());
    let plan = planned(&state);
    assert_eq!(plan.commands, ["helm uninstall mine --namespace here"]);
    let all = changes(&plan);
    assert!(all.contains(&"scale to 0 Deployment medley-system/medley-operator".to_owned()));
    // What Helm does not know is removed here.
    assert!(all.contains(&"delete MutatingWebhookConfiguration medley-placement".to_owned()));
    assert!(all.contains(&"delete Lease medley-system/medley".to_owned()));
    assert!(!all.contains(&"delete ServiceAccount medley-system/medley-operator".to_owned()));
    assert!(!all.contains(&"delete Namespace medley-system".to_owned()));
    // Scaled down, there is nothing left to do but to call Helm.
    state.objects.retain(is_helms);
    state.gated.clear();
    for object in &mut state.objects {
        object["spec"]["replicas"] = 0.into();
    }
    let plan = planned(&state);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert_eq!(plan.commands.len(), 1);
}

#[rstest]
#[case::olm(
    json!({ "ownerReferences": [{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "name": "medley.v0.1.0", "uid": "1",
    }] }),
    "delete clusterserviceversion medley.v0.1.0"
)]
#[case::argo_cd(
    json!({ "annotations": { "argocd.argoproj.io/tracking-id": "virt:apps/Deployment:a/b" } }),
    "Application virt"
)]
#[case::flux(
    json!({ "labels": { "kustomize.toolkit.fluxcd.io/name": "infra" } }),
    "the source of infra"
)]
fn installation_of_a_controller_has_to_be_removed_there(
    #[case] metadata: Value,
    #[case] next: &str,
) {
    let mut state = installed();
    for (key, value) in metadata.as_object().unwrap() {
        state.objects[1]["metadata"][key] = value.clone();
    }
    let plan = planned(&state);
    assert_eq!(plan.refusals.len(), 1);
    let text = plan.refusals[0].to_string();
    assert!(text.contains(next), "{text}");
}

#[test]
fn candidates_cover_every_installation() {
    let known = candidates("here").unwrap();
    for options in [
        crate::Options::default(),
        crate::Options {
            openshift: true,
            monitoring: true,
            console: true,
            console_hosts: vec!["a.example".to_owned()],
            jobs: crate::Job::ALL.iter().copied().collect(),
            ..crate::Options::default()
        },
    ] {
        let options = crate::Options {
            namespace: "here".to_owned(),
            ..options
        };
        for object in crate::objects(&options).unwrap() {
            let object = ObjectRef::of(&object.value);
            assert!(known.contains(&object), "{object}");
        }
    }
    let created = [
        "medley-console-keys",
        "medley-controllers",
        "medley-environment",
        "medley-placement",
        "medley-webhook-authority",
        "medley-webhook-ca",
    ];
    for name in created {
        assert!(known.iter().any(|it| it.name == name), "{name}");
    }
}

#[test]
fn plurals_are_those_of_requests() {
    for (kind, expected) in [
        ("NetworkPolicy", "networkpolicies"),
        ("SecurityContextConstraints", "securitycontextconstraints"),
        ("ServiceMonitor", "servicemonitors"),
        ("SSP", "ssps"),
    ] {
        assert_eq!(crate::plural(kind), expected);
    }
}

#[test]
fn kind_that_another_operator_has_stays() {
    let name = "virtplatformconfigs.advisor.kubevirt.io";
    let crd = object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        None,
        name,
    );
    let with = |advisor_operator: bool| {
        let state = InstalledState {
            objects: vec![crd.clone()],
            advisor_operator,
            ..installed()
        };
        let options = UninstallOptions {
            delete_crds: true,
            ..UninstallOptions::default()
        };
        let all = changes(&plan(&state, options));
        all.contains(&format!("delete CustomResourceDefinition {name}"))
    };
    assert!(with(false));
    assert!(!with(true));
}
