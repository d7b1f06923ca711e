//! The profiles of the program, as data and as code: both plan the same.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::profile::fixture::options_of;
use crate::profile::kinds::HYPER_CONVERGED;
use crate::profile::tests::{density, load_aware, node_health, worlds};
use crate::profile::{example, higher_density, load_aware as load, node_health as health};

fn data(name: &str) -> Arc<dyn Profile> {
    let found = ALL.iter().find(|(_, profile)| profile.about().name == name);
    Arc::clone(&found.unwrap_or_else(|| panic!("{name} does not compile")).1)
}

#[test]
fn built_in_profiles_compile_without_findings() {
    let mut names = Names::default();
    let compiled = TEXTS.map(|(_, text, member)| built_in(text, member, &mut names).unwrap());
    let findings: Vec<_> = compiled.iter().flat_map(|it| &it.findings).collect();
    assert_eq!(findings, [] as [&api::profile::Finding; 0]);
    assert!(compiled.iter().all(|it| it.profile.is_some()));
}

fn pairs() -> Vec<(Arc<dyn Profile>, Box<dyn Profile>)> {
    vec![
        (data("example-profile"), Box::new(example::Example)),
        (
            data("node-health-remediation"),
            Box::new(health::NodeHealthRemediation),
        ),
        (
            data("virt-higher-density"),
            Box::new(higher_density::VirtHigherDensity),
        ),
        (
            data("load-aware-rebalancing"),
            Box::new(load::LoadAwareRebalancing),
        ),
    ]
}

#[test]
fn descriptions_and_kinds_are_those_of_the_code() {
    for (data, code) in pairs() {
        let about = |profile: &dyn Profile| format!("{:?}", profile.about());
        assert_eq!(about(&*data), about(&*code));
        for (data, code) in data.uses().iter().zip(code.uses()) {
            assert_eq!(data.of, code.of);
            assert_eq!(data.versions, code.versions);
            assert_eq!(data.named, code.named);
            // The code of load-aware-rebalancing may write the HyperConverged, which it only reads.
            assert!(data.access == code.access || data.of == HYPER_CONVERGED);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn plans_are_those_of_the_code(
        world in worlds(),
        load_aware in load_aware(),
        density in density(),
        node_health in node_health(),
    ) {
        for (data, code) in pairs() {
            let options = match data.about().name {
                "load-aware-rebalancing" => &load_aware,
                "virt-higher-density" => &density,
                "node-health-remediation" => &node_health,
                _ => &json!({}),
            };
            let options = options_of(options);
            let snapshot = world.snapshot();
            let before = code.intents(&options, &snapshot);
            prop_assert_eq!(&data.intents(&options, &snapshot), &before);
            if let Ok(wanted) = before {
                prop_assert_eq!(data.prerequisites(&options), code.prerequisites(&options));
                let snapshot = world.clone().applied(&wanted).snapshot();
                prop_assert_eq!(data.intents(&options, &snapshot), code.intents(&options, &snapshot));
            }
        }
    }
}
