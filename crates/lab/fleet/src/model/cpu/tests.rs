use std::collections::BTreeSet;

use rstest::rstest;

use super::{Cpu, GENERATIONS, Generation, is_known};

fn cpu(name: &str) -> Cpu {
    Generation::named(name).expect("a generation").describe()
}

fn models(name: &str) -> BTreeSet<String> {
    cpu(name).models.into_iter().collect()
}

#[test]
fn every_generation_has_all_labeller_inputs() {
    for generation in GENERATIONS {
        let cpu = generation.describe();
        let name = generation.name;
        assert!(is_known(&cpu.model), "{name} has the model {}", cpu.model);
        let all: BTreeSet<_> = cpu.models.iter().chain(&cpu.known_models).collect();
        assert_eq!(
            all.len(),
            cpu.models.len() + cpu.known_models.len(),
            "{name}"
        );
        assert!(all.contains(&cpu.model), "{name}");
        assert!(
            !cpu.required_features.is_empty() && !cpu.features.is_empty(),
            "{name}"
        );
        for model in &all {
            assert!(is_known(model), "{name}: {model}");
        }
    }
}

/// Usable models as recorded on real hosts: the newest of each family, and the missing ones.
#[rstest]
#[case("haswell", &["Penryn", "IvyBridge-IBRS", "Haswell-noTSX-IBRS"], &["Haswell", "Broadwell-noTSX"])]
#[case("broadwell", &["Haswell-noTSX", "Broadwell-noTSX-IBRS"], &["Broadwell", "Skylake-Client-noTSX-IBRS"])]
#[case("skylake", &["Haswell", "Broadwell-IBRS", "Skylake-Client-IBRS", "Skylake-Server-IBRS"], &["Cascadelake-Server-noTSX"])]
#[case("cascadelake", &["Skylake-Server-noTSX-IBRS", "Cascadelake-Server-noTSX"], &["Haswell", "Skylake-Server", "Skylake-Client-IBRS", "Cascadelake-Server"])]
#[case("icelake", &["Cascadelake-Server-noTSX", "Icelake-Server-noTSX"], &["Icelake-Server", "Cooperlake", "Skylake-Server-IBRS"])]
#[case("sapphirerapids", &["SapphireRapids", "Icelake-Server", "Skylake-Server-IBRS", "Cascadelake-Server"], &["GraniteRapids"])]
#[case("naples", &["EPYC", "EPYC-IBPB", "Dhyana", "Opteron_G3", "SandyBridge"], &["EPYC-Rome", "IvyBridge", "Haswell-noTSX", "Opteron_G4"])]
// Its own model is not usable, as `xsaves` is off.
#[case("rome", &["EPYC", "EPYC-IBPB", "Opteron_G3", "Dhyana", "SandyBridge", "Westmere", "Nehalem", "Penryn"], &["EPYC-Rome", "IvyBridge"])]
#[case("milan", &["EPYC-Milan", "EPYC-Rome", "EPYC-IBPB"], &["EPYC-Genoa", "Skylake-Server-noTSX-IBRS"])]
#[case("genoa", &["EPYC", "EPYC-Rome", "EPYC-Milan", "EPYC-Genoa", "Icelake-Server-noTSX", "Skylake-Server-noTSX-IBRS"], &["EPYC-Turin", "Icelake-Server"])]
// No EPYC at all.
#[case("turin", &["Opteron_G3", "IvyBridge-IBRS", "SandyBridge"], &["EPYC", "EPYC-IBPB", "EPYC-Turin", "Haswell-noTSX", "Opteron_G4"])]
#[case("z15", &["z900", "z9EC-base", "gen15a", "gen15a-base", "gen15b-base"], &["z14-base", "gen16a-base"])]
#[case("z16", &["gen15a-base", "gen16a", "gen16a-base", "z9BC"], &["z10EC", "z14", "gen17a-base"])]
fn usable_models_match_recorded_hosts(
    #[case] name: &str,
    #[case] usable: &[&str],
    #[case] missing: &[&str],
) {
    let models = models(name);
    for model in usable {
        assert!(models.contains(*model), "{name} runs {model}: {models:?}");
    }
    for model in missing {
        assert!(!models.contains(*model), "{name} does not run {model}");
    }
}

#[test]
fn generations_of_a_vendor_share_models() {
    let newest_shared = |a: &str, b: &str| -> BTreeSet<String> {
        models(a).intersection(&models(b)).cloned().collect()
    };
    assert!(newest_shared("skylake", "sapphirerapids").contains("Skylake-Server-IBRS"));
    assert!(newest_shared("skylake", "icelake").contains("Skylake-Server-noTSX-IBRS"));
    assert!(newest_shared("naples", "genoa").contains("EPYC-IBPB"));
    assert!(!newest_shared("rome", "turin").contains("EPYC"));
}

#[test]
fn cpu_survives_the_node_annotation() {
    let named = Cpu::of_generation("milan");
    assert_eq!(named.to_annotation(), "milan");
    assert_eq!(Cpu::of_annotation("milan"), named.in_full());
    let own = Cpu {
        vendor: "Cyrix".into(),
        model: "6x86".into(),
        models: vec!["486".into()],
        ..Cpu::default()
    };
    assert_eq!(Cpu::of_annotation(&own.to_annotation()), Some(own));
    assert_eq!(Cpu::of_annotation("pentium9"), None);
    assert_eq!(Cpu::of_annotation("{\"vendor\":1}"), None);
}

#[test]
fn host_model_guest_has_features_beyond_the_model() {
    let required =
        |name: &str| -> BTreeSet<String> { cpu(name).required_features.into_iter().collect() };
    assert!(required("icelake").contains("sha-ni"));
    // So it cannot migrate to hosts without it, while guests with fewer features can come here.
    let features: BTreeSet<String> = cpu("skylake").features.into_iter().collect();
    assert!(!required("icelake").is_subset(&features));
    let features: BTreeSet<String> = cpu("icelake").features.into_iter().collect();
    assert!(required("skylake").is_subset(&features));
    for model in ["Haswell", "avx2"] {
        assert!(!required("skylake").contains(model));
    }
}

#[test]
fn missing_features_of_a_model_are_listed() {
    assert_eq!(cpu("icelake").lacks("Skylake-Server-IBRS"), ["hle", "rtm"]);
    assert!(cpu("skylake").runs("Skylake-Server-IBRS"));
    assert!(!cpu("icelake").runs("Skylake-Server-IBRS"));
    // The host model itself runs although it is not usable by name.
    assert!(cpu("rome").runs("EPYC-Rome"));
}
