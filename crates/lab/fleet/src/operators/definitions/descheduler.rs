//! `KubeDescheduler`, as releases of its operator define it.

use serde_json::{Value, json};

use crate::schema::{
    AGE, Crd, atomic, boolean, choice, defaulted, int32, list, merged, nullable, object,
    only_cluster, operator_spec, operator_status, spec_and_status, text, validated, with,
};

/// Releases of the descheduler operator. They differ in the profiles and fields they support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeschedulerRelease {
    /// 5.10: no profile for virtual machines.
    V5_10,
    /// 5.14: `DevKubeVirtRelieveAndMigrate`.
    V5_14,
    /// 5.21: for our purposes like 5.14.
    V5_21,
    /// 5.32: `KubeVirtRelieveAndMigrate` and limits of evictions per node.
    V5_32,
    /// Current: the `Dev` profile is removed, the soft tainter cannot be selected, migrations have
    /// a cool-down.
    #[default]
    Current,
}

const LONG: [&str; 2] = ["LongLifecycle", "DevPreviewLongLifecycle"];
const DEV_MIGRATE: &str = "DevKubeVirtRelieveAndMigrate";
const MIGRATE: &str = "KubeVirtRelieveAndMigrate";

impl DeschedulerRelease {
    /// The supported profiles.
    pub fn profiles(self) -> Vec<&'static str> {
        let mut profiles = vec![
            "AffinityAndTaints",
            "TopologyAndDuplicates",
            "LifecycleAndUtilization",
            "DevPreviewLongLifecycle",
            "LongLifecycle",
            "SoftTopologyAndDuplicates",
            "EvictPodsWithLocalStorage",
            "EvictPodsWithPVC",
            "CompactAndScale",
        ];
        match self {
            Self::V5_10 => {}
            Self::V5_14 | Self::V5_21 => profiles.push(DEV_MIGRATE),
            Self::V5_32 => profiles.extend([DEV_MIGRATE, MIGRATE]),
            Self::Current => profiles.push(MIGRATE),
        }
        profiles
    }

    fn knows_migration(self) -> bool {
        self != Self::V5_10
    }

    fn limits_nodes(self) -> bool {
        matches!(self, Self::V5_32 | Self::Current)
    }
}

pub(super) fn definition(release: DeschedulerRelease) -> Crd {
    let limits = if release.limits_nodes() {
        "total node"
    } else {
        "total"
    };
    let mode = choice(&["Automatic", "Predictive"]);
    let fields = object([
        (
            "deschedulingIntervalSeconds",
            with(int32(), json!({ "minimum": 1 })),
        ),
        ("evictionLimits", object([(limits, int32())])),
        ("mode", defaulted(mode, "Predictive")),
        ("profileCustomizations", customizations(release)),
        ("profiles!", profiles(release)),
    ]);
    let schema = spec_and_status(merged(operator_spec(), fields), operator_status());
    let schema = only_cluster(schema, "KubeDescheduler");
    Crd::new("operator.openshift.io", "v1", "KubeDescheduler", schema).columns(&[
        "Mode .spec.mode",
        "State .spec.managementState",
        AGE,
    ])
}

/// Schema of the profiles, with the rules about mutually exclusive ones.
fn profiles(release: DeschedulerRelease) -> Value {
    let there = release.profiles();
    let mut rules = vec![(
        "self.all(a, self.exists_one(b, a == b))".to_owned(),
        "a profile must not be declared twice".to_owned(),
    )];
    let exclusions: [(&[&str], &[&str]); 6] = [
        (&LONG, &["LifecycleAndUtilization"]),
        (&["SoftTopologyAndDuplicates"], &["TopologyAndDuplicates"]),
        (
            &["CompactAndScale"],
            &["LifecycleAndUtilization", "TopologyAndDuplicates"],
        ),
        (&["CompactAndScale"], &LONG),
        (
            &[
                "LongLifecycle",
                "DevPreviewLongLifecycle",
                "LifecycleAndUtilization",
                "CompactAndScale",
            ],
            &[DEV_MIGRATE, MIGRATE],
        ),
        (&[DEV_MIGRATE], &[MIGRATE]),
    ];
    for (left, right) in exclusions {
        for one in left.iter().filter(|one| there.contains(one)) {
            for other in right.iter().filter(|other| there.contains(other)) {
                rules.push((
                    format!("!('{one}' in self && '{other}' in self)"),
                    format!("cannot declare {one} and {other} profiles simultaneously"),
                ));
            }
        }
    }
    let rules: Vec<_> = rules
        .iter()
        .map(|(rule, message)| (rule.as_str(), message.as_str()))
        .collect();
    let profiles = with(atomic(&choice(&there)), json!({ "maxItems": 11 }));
    validated(profiles, &rules)
}

fn customizations(release: DeschedulerRelease) -> Value {
    let duration = || with(text(), json!({ "format": "duration" }));
    let basic = object([
        ("podLifetime", duration()),
        ("thresholdPriority", nullable(int32())),
        ("thresholdPriorityClassName", text()),
        ("namespaces", object([("included excluded", list(&text()))])),
        (
            "devLowNodeUtilizationThresholds",
            nullable(choice(&["Low", "Medium", "High", ""])),
        ),
        (
            "devHighNodeUtilizationThresholds",
            nullable(choice(&["Minimal", "Modest", "Moderate", ""])),
        ),
        ("devEnableEvictionsInBackground", boolean()),
    ]);
    if !release.knows_migration() {
        return basic;
    }
    let mut soft_tainter = boolean();
    if release == DeschedulerRelease::Current {
        soft_tainter["description"] = json!(
            "Deprecated: ignored. The soft tainter always runs with the profiles that need it."
        );
    }
    let utilization = choice(&[
        "PrometheusCPUUsage",
        "PrometheusCPUPSIPressure",
        "PrometheusCPUPSIPressureByUtilization",
        "PrometheusMemoryPSIPressure",
        "PrometheusIOPSIPressure",
        "PrometheusCPUCombined",
        "PrometheusCPUMemoryCombinedProfile",
    ]);
    let deviation = choice(&[
        "Low",
        "Medium",
        "High",
        "AsymmetricLow",
        "AsymmetricMedium",
        "AsymmetricHigh",
        "",
    ]);
    let migration = object([
        ("devEnableSoftTainter", soft_tainter),
        ("devActualUtilizationProfile", utilization),
        ("devDeviationThresholds", nullable(deviation)),
    ]);
    let all = merged(basic, migration);
    if release != DeschedulerRelease::Current {
        return all;
    }
    let cooldown = "devMigrationCooldown devMaxMigrationCooldown devMigrationHistoryWindow";
    merged(all, object([(cooldown, duration())]))
}
