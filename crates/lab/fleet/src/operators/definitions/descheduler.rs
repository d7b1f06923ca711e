//! `KubeDescheduler`, as releases of its operator define it.

use serde_json::{Value, json};

use super::schema::{
    Names, atomic, boolean, choice, defaulted, definition as define, int32, list, merged, object,
    only_cluster, operator_spec, operator_status, requiring, spec_and_status, text, with,
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

pub(super) fn definition(vintage: DeschedulerRelease) -> Value {
    let mut limits = object([("total", int32())]);
    if vintage.limits_nodes() {
        limits = merged(limits, object([("node", int32())]));
    }
    let spec = merged(
        operator_spec(),
        requiring(
            object([
                (
                    "deschedulingIntervalSeconds",
                    with(int32(), json!({ "minimum": 1 })),
                ),
                ("evictionLimits", limits),
                (
                    "mode",
                    defaulted(choice(&["Automatic", "Predictive"]), &json!("Predictive")),
                ),
                ("profileCustomizations", customizations(vintage)),
                ("profiles", profiles(vintage)),
            ]),
            &["profiles"],
        ),
    );
    let schema = only_cluster(spec_and_status(spec, operator_status()), "KubeDescheduler");
    let names = Names::new(
        "operator.openshift.io",
        "v1",
        "KubeDescheduler",
        "kubedeschedulers",
    );
    define(
        &names,
        schema,
        &[
            ("Mode", "string", ".spec.mode"),
            ("State", "string", ".spec.managementState"),
        ],
    )
}

/// Schema of the profiles, with the rules about mutually exclusive ones.
fn profiles(vintage: DeschedulerRelease) -> Value {
    let there = vintage.profiles();
    let mut rules = vec![json!({
        "rule": "self.all(a, self.exists_one(b, a == b))",
        "message": "a profile must not be declared twice",
    })];
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
                rules.push(json!({
                    "rule": format!("!('{one}' in self && '{other}' in self)"),
                    "message": format!("cannot declare {one} and {other} profiles simultaneously"),
                }));
            }
        }
    }
    with(
        atomic(&choice(&there)),
        json!({ "maxItems": 11, "x-kubernetes-validations": rules }),
    )
}

fn customizations(vintage: DeschedulerRelease) -> Value {
    let namespaces = object([("included", list(&text())), ("excluded", list(&text()))]);
    let basic = object([
        (
            "podLifetime",
            json!({ "type": "string", "format": "duration" }),
        ),
        (
            "thresholdPriority",
            json!({ "type": "integer", "format": "int32", "nullable": true }),
        ),
        ("thresholdPriorityClassName", text()),
        ("namespaces", namespaces),
        (
            "devLowNodeUtilizationThresholds",
            with(
                choice(&["Low", "Medium", "High", ""]),
                json!({ "nullable": true }),
            ),
        ),
        (
            "devHighNodeUtilizationThresholds",
            with(
                choice(&["Minimal", "Modest", "Moderate", ""]),
                json!({ "nullable": true }),
            ),
        ),
        ("devEnableEvictionsInBackground", boolean()),
    ]);
    if !vintage.knows_migration() {
        return basic;
    }
    let soft_tainter = if vintage == DeschedulerRelease::Current {
        with(
            boolean(),
            json!({ "description": "Deprecated: ignored. The soft tainter always runs with the profiles that need it." }),
        )
    } else {
        boolean()
    };
    let migration = object([
        ("devEnableSoftTainter", soft_tainter),
        (
            "devActualUtilizationProfile",
            choice(&[
                "PrometheusCPUUsage",
                "PrometheusCPUPSIPressure",
                "PrometheusCPUPSIPressureByUtilization",
                "PrometheusMemoryPSIPressure",
                "PrometheusIOPSIPressure",
                "PrometheusCPUCombined",
                "PrometheusCPUMemoryCombinedProfile",
            ]),
        ),
        (
            "devDeviationThresholds",
            with(
                choice(&[
                    "Low",
                    "Medium",
                    "High",
                    "AsymmetricLow",
                    "AsymmetricMedium",
                    "AsymmetricHigh",
                    "",
                ]),
                json!({ "nullable": true }),
            ),
        ),
    ]);
    let all = merged(basic, migration);
    if vintage != DeschedulerRelease::Current {
        return all;
    }
    let duration = || json!({ "type": "string", "format": "duration" });
    merged(
        all,
        object([
            ("devMigrationCooldown", duration()),
            ("devMaxMigrationCooldown", duration()),
            ("devMigrationHistoryWindow", duration()),
        ]),
    )
}
