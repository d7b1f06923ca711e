//! What holds for all profiles.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{World, lasting, options_of};
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
fn remediation_is_there_when_it_is_switched_on() {
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
    let told = error.to_string();
    assert!(
        told.contains("'node-health'") && told.contains("node-health-remediation"),
        "{told}"
    );
}

#[test]
fn the_definition_names_every_profile() {
    let definition = json!(api::advisor::definition());
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/profile/enum";
    let accepted: BTreeSet<&str> = definition
        .pointer(path)
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(accepted, names(&all()).into_iter().collect());
}

#[test]
fn everything_but_the_example_is_advertised() {
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

/// Items have unique names, manage what they set, and apply kinds that they say they apply.
fn sound(profile: &dyn super::Profile, wanted: &Intents) {
    let mut seen: Vec<&str> = Vec::new();
    for item in &wanted.items {
        assert!(!seen.contains(&item.name));
        assert!(
            item.depends_on.iter().all(|other| seen.contains(other)),
            "order: {item:?}"
        );
        seen.push(item.name);
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

fn worlds() -> impl Strategy<Value = World> {
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
            let world = World::new(if v1 { "v1" } else { "v1beta1" })
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

    /// A plan that has been carried out is the plan that would be made: it never becomes stale by itself.
    #[test]
    fn what_is_wanted_stays_the_same_once_it_is_applied(
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
            prop_assert_eq!(lasting(&before), lasting(&after));
            prop_assert_eq!(&before.inputs, &after.inputs);
            // What is in force costs nothing to apply again.
            prop_assert!(after.items.iter().all(|item| item.impact == api::advisor::Impact::Low));
        }
    }

    /// Every setting that is accepted can be left out, and what is left out has a default.
    #[test]
    fn options_may_be_absent(world in worlds()) {
        for profile in all().iter() {
            let intents = profile.intents(&options_of(&json!({})), &world.snapshot());
            prop_assert!(intents.is_ok());
        }
    }
}
