//! Properties of all profiles.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{ClusterFixture, options_of, without_impact_and_message};
use super::kinds::KUBE_DESCHEDULER;
use super::{Access, Registry};
use crate::intent::Intents;

fn all() -> Registry {
    Registry::standard(&["node-health-remediation"]).unwrap()
}

fn names(registry: &Registry) -> Vec<&'static str> {
    registry
        .iter()
        .map(|profile| profile.about().name)
        .collect()
}

#[test]
fn remediation_is_available_when_enabled() {
    let always = [
        "load-aware-rebalancing",
        "virt-higher-density",
        "example-profile",
    ];
    assert_eq!(names(&Registry::standard::<&str>(&[]).unwrap()), always);
    assert!(names(&all()).contains(&"node-health-remediation"));
    let Err(error) = Registry::standard(&["node-health"]) else {
        panic!("there is no such profile")
    };
    let message = error.to_string();
    assert!(
        message.contains("'node-health'") && message.contains("node-health-remediation"),
        "{message}"
    );
}

#[test]
fn crd_knows_every_profile() {
    let known: BTreeSet<&str> = api::advisor::BUILT_IN_PROFILES.into();
    assert_eq!(known, names(&all()).into_iter().collect());
    let definition = json!(api::advisor::definition());
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/profile/x-kubernetes-validations/1/rule";
    let rule = definition.pointer(path).and_then(Value::as_str).unwrap();
    assert!(
        known.iter().all(|name| rule.contains(&format!("'{name}'"))),
        "{rule}"
    );
}

#[test]
fn all_but_the_example_are_advertised() {
    for profile in all().iter() {
        let about = profile.about();
        assert_eq!(about.advertised, about.name != "example-profile");
        assert!(
            about
                .documentation_url
                .ends_with(&format!("/docs/profiles/{}.md", about.name))
        );
    }
}

/// Items have unique names, manage the fields they set, and only apply kinds that the profile declares.
fn sound(profile: &dyn super::Profile, wanted: &Intents) {
    let mut names_so_far: Vec<&str> = Vec::new();
    for item in &wanted.items {
        assert!(!names_so_far.contains(&item.name));
        assert!(
            item.depends_on
                .iter()
                .all(|other| names_so_far.contains(other)),
            "order: {item:?}"
        );
        names_so_far.push(item.name);
        assert!(!item.managed.is_empty());
        for path in &item.managed {
            let pointer = format!("/{}", path.replace('.', "/"));
            assert!(
                item.desired.pointer(&pointer).is_some(),
                "{path} is not set by {}",
                item.name
            );
        }
        let uses = profile
            .uses()
            .iter()
            .find(|uses| uses.of.kind == item.target.kind)
            .unwrap();
        assert_ne!(uses.access, Access::Read);
        assert_eq!(item.desired["kind"], item.target.kind);
        assert_eq!(item.desired["apiVersion"], item.target.api_version);
        assert_eq!(item.desired["metadata"]["name"], item.target.name);
        assert_eq!(
            item.desired["metadata"]["namespace"].as_str(),
            item.target.namespace.as_deref()
        );
    }
}

fn load_aware() -> impl Strategy<Value = Value> {
    let limit = proptest::option::of(1..100_i32);
    (60..86_400_i32, any::<bool>(), limit.clone(), limit).prop_map(
        |(interval, psi, total, node)| {
            let mut options =
                json!({ "deschedulingIntervalSeconds": interval, "enablePSIMetrics": psi });
            for (name, limit) in [("evictionLimitTotal", total), ("evictionLimitNode", node)] {
                if let Some(limit) = limit {
                    options[name] = json!(limit);
                }
            }
            json!({ "loadAware": options })
        },
    )
}

fn density() -> impl Strategy<Value = Value> {
    (any::<bool>(), any::<bool>(), 100..=120_i32).prop_map(|(swap, ksm, ratio)| {
        json!({ "virtHigherDensity": {
            "enableSwap": swap, "ksmConfiguration": { "enabled": ksm }, "memoryToRequestRatio": ratio,
        }})
    })
}

fn worlds() -> impl Strategy<Value = ClusterFixture> {
    let profile = proptest::sample::select(vec![
        "AffinityAndTaints",
        "SoftTopologyAndDuplicates",
        "LifecycleAndUtilization",
        "KubeVirtRelieveAndMigrate",
    ]);
    let profiles = proptest::collection::vec(profile, 0..4);
    (any::<bool>(), any::<bool>(), proptest::option::of(profiles), 0..50_i64).prop_map(
        |(v1, psi, profiles, migrations)| {
            let mut spec = json!({ "liveMigrationConfig": { "parallelMigrationsPerCluster": migrations } });
            if v1 {
                spec = json!({ "virtualization": spec });
            }
            let world = ClusterFixture::new(if v1 { "v1" } else { "v1beta1" })
                .hyper_converged("openshift-cnv", &spec)
                .pool("worker", &["worker"], if psi { &["psi=1"] } else { &[] }, 3);
            match profiles {
                Some(profiles) => world.with(KUBE_DESCHEDULER, &json!({
                    "metadata": { "name": "cluster", "namespace": "openshift-kube-descheduler-operator" },
                    "spec": { "profiles": profiles, "mode": "Predictive" },
                })),
                None => world,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An applied plan equals the plan that would be generated: it does not become stale by itself.
    #[test]
    fn intents_are_stable_once_applied(
        world in worlds(),
        load_aware in load_aware(),
        density in density(),
    ) {
        for profile in all().iter() {
            let options = match profile.about().name {
                "load-aware-rebalancing" => &load_aware,
                "virt-higher-density" => &density,
                _ => &json!({}),
            };
            let before = world.wanted(&**profile, options);
            sound(&**profile, &before);
            let world = world.clone().applied(&before);
            let after = world.wanted(&**profile, options);
            prop_assert_eq!(without_impact_and_message(&before), without_impact_and_message(&after));
            prop_assert_eq!(&before.inputs, &after.inputs);
            // Applying a change that is in force has low impact.
            prop_assert!(after.items.iter().all(|item| item.impact == api::advisor::Impact::Low));
        }
    }

    /// Every option can be omitted, and has a default then.
    #[test]
    fn options_may_be_absent(world in worlds()) {
        for profile in all().iter() {
            let intents = profile.intents(&options_of(&json!({})), &world.snapshot());
            prop_assert!(intents.is_ok());
        }
    }
}
