use rstest::rstest;

use super::*;

#[rstest]
#[case("Penryn", "Intel", 2007)]
#[case("Skylake-Server", "Intel", 2016)]
#[case("Icelake-Server", "Intel", 2021)]
#[case("Cooperlake", "Intel", 2020)]
#[case("SapphireRapids", "Intel", 2023)]
#[case("GraniteRapids-v5", "Intel", 2024)]
#[case("SierraForest", "Intel", 2024)]
#[case("Denverton-v3", "Intel", 2017)]
#[case("EPYC-Genoa", "AMD", 2022)]
#[case("EPYC-Turin-v1", "AMD", 2024)]
#[case("Opteron_G3", "AMD", 2009)]
#[case("Dhyana", "Hygon", 2018)]
#[case("YongFeng-v2", "Zhaoxin", 2022)]
#[case("gen17a-base", "IBM", 2025)]
#[case("z13.2-base", "IBM", 2016)]
#[case("z13-base", "IBM", 2015)]
#[case("z900.3", "IBM", 2002)]
#[case("Neoverse-V2", "ARM", 2022)]
#[case("POWER9", "IBM", 2017)]
fn models_have_a_vendor_and_a_year(#[case] name: &str, #[case] vendor: &str, #[case] year: i32) {
    let model = lookup(name).unwrap();
    assert_eq!(model.vendor, Some(Vendor::new(vendor)));
    assert_eq!(model.year, Some(year));
}

#[rstest]
#[case("Haswell", "Haswell", 1, false, true)]
#[case("Haswell-v1", "Haswell", 1, false, true)]
#[case("Haswell-noTSX", "Haswell", 2, false, false)]
#[case("Haswell-v2", "Haswell", 2, false, false)]
#[case("Haswell-IBRS", "Haswell", 3, true, true)]
#[case("Haswell-noTSX-IBRS", "Haswell", 4, true, false)]
#[case("Haswell-v4", "Haswell", 4, true, false)]
#[case("Westmere-IBRS", "Westmere", 2, true, false)]
#[case("Skylake-Client-noTSX-IBRS", "Skylake-Client", 3, true, false)]
#[case("Skylake-Server-v5", "Skylake-Server", 5, true, false)]
#[case("Cascadelake-Server", "Cascadelake-Server", 1, true, true)]
#[case("Cascadelake-Server-noTSX", "Cascadelake-Server", 3, true, false)]
#[case("Icelake-Server-noTSX", "Icelake-Server", 2, true, false)]
#[case("EPYC", "EPYC", 1, false, false)]
#[case("EPYC-IBPB", "EPYC", 2, true, false)]
#[case("EPYC-v4", "EPYC", 4, true, false)]
#[case("EPYC-Rome-v4", "EPYC-Rome", 4, true, false)]
fn suffixes_and_versions_name_the_same_variants(
    #[case] name: &str,
    #[case] family: &str,
    #[case] version: u32,
    #[case] mitigated: bool,
    #[case] tsx: bool,
) {
    let model = lookup(name).unwrap();
    assert_eq!(model.family, family);
    let variant = model.variant;
    assert_eq!(
        (variant.version, variant.mitigated, variant.tsx),
        (version, mitigated, tsx)
    );
}

#[rstest]
#[case("gen15a", false, 1)]
#[case("gen15a-base", true, 1)]
#[case("z990.5", false, 5)]
#[case("z990.5-base", true, 5)]
fn mainframes_have_bases_and_levels(#[case] name: &str, #[case] base: bool, #[case] level: u32) {
    let variant = lookup(name).unwrap().variant;
    assert_eq!((variant.base, variant.level), (base, level));
}

#[rstest]
#[case("qemu64")]
#[case("kvm32-v1")]
#[case("cpu64-rhel6")]
#[case("max")]
fn generic_models_have_no_year(#[case] name: &str) {
    let model = lookup(name).unwrap();
    assert_eq!((model.year, model.vendor), (None, None));
}

#[rstest]
#[case("")]
#[case("EPYC-Venice")]
#[case("-v1")]
#[case("EPYC-v")]
#[case("EPYC-vx")]
#[case("EPYC-v99999999999999999999")]
#[case("epyc")]
#[case("EPYC-v1-v2")]
#[case("best-match-model")]
fn unknown_names_are_not_found(#[case] name: &str) {
    assert_eq!(lookup(name), None);
}

#[test]
fn version_beyond_the_table_equals_the_last_known() {
    let variant = lookup("Haswell-v9").unwrap().variant;
    assert_eq!(
        (variant.version, variant.mitigated, variant.tsx),
        (9, true, false)
    );
}

#[test]
fn names_are_unique_and_generations_order_a_year() {
    let all: Vec<&Family> = listed().collect();
    assert_eq!(families().count(), all.len(), "duplicate name");
    for (place, one) in all.iter().enumerate() {
        for other in &all[place + 1..] {
            let same = one.vendor.is_some()
                && (one.vendor, one.year, one.generation)
                    == (other.vendor, other.year, other.generation);
            assert!(!same, "{} and {} have the same rank", one.name, other.name);
        }
    }
}
