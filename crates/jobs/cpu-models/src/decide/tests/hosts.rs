//! Hosts recorded in libvirt's tests/domaincapsdata. Each case is a cluster of two such hosts.

use super::*;

const NAPLES_TO_GENOA: &[&str] = &[
    "EPYC",
    "EPYC-IBPB",
    "EPYC-Rome",
    "EPYC-Milan",
    "EPYC-Genoa",
    "Opteron_G3",
    "Dhyana",
    "Icelake-Server-noTSX",
    "Skylake-Server-noTSX-IBRS",
];

const UP_TO_GRANITE_RAPIDS: &[&str] = &[
    "Penryn",
    "Westmere-IBRS",
    "Haswell-noTSX-IBRS",
    "Skylake-Server-noTSX-IBRS",
    "Cascadelake-Server-noTSX",
    "Cooperlake",
    "Icelake-Server-noTSX",
    "Snowridge",
    "SapphireRapids",
    "GraniteRapids",
];

const MAINFRAME: &[&str] = &[
    "gen15a",
    "gen15a-base",
    "gen15b",
    "gen15b-base",
    "gen16a",
    "gen16a-base",
    "gen17a",
    "gen17a-base",
    "gen17b",
    "gen17b-base",
    "z9EC",
    "z9EC-base",
];

#[rstest]
// EPYC-Rome itself is not usable because xsaves is off; Dhyana is newer than EPYC but a Hygon
// model.
#[case("AMD", "EPYC-Rome", &["EPYC", "EPYC-IBPB", "Opteron_G3", "Dhyana", "SandyBridge", "Westmere", "Nehalem", "Penryn"], "EPYC-IBPB")]
#[case("AMD", "EPYC-Genoa", NAPLES_TO_GENOA, "EPYC-Genoa")]
#[case("Intel", "GraniteRapids", UP_TO_GRANITE_RAPIDS, "GraniteRapids")]
// No EPYC model is usable; the usable Intel models are newer than the remaining AMD one.
#[case("AMD", "EPYC-Turin", &["Opteron_G3", "Penryn", "Nehalem", "Westmere", "SandyBridge", "IvyBridge-IBRS"], "Opteron_G3")]
#[case("IBM", "gen17a-base", MAINFRAME, "gen17b-base")]
fn recorded_hosts_get_a_model_of_their_vendor(
    #[case] vendor: &str,
    #[case] host_model: &str,
    #[case] usable: &[&str],
    #[case] expected: &str,
) {
    let nodes = identical_nodes("a", 2, vendor, usable);
    let nodes = nodes.into_iter().map(|node| hosted(node, host_model));
    let index = Index::new(nodes);
    assert_eq!(chosen(&index, "a0"), expected);
}
