//! `load-aware-rebalancing`: the descheduler moves VMs away from nodes under pressure. This needs PSI accounting in the
//! kernels of the nodes, which takes a reboot.

mod limits;
#[cfg(test)]
mod tests;

use api::advisor::{DeviationThresholds, Drift, Impact, Input, Mode, ProfileOptions, TargetRef};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::adoption::{self, Edit};
use super::kinds::{
    DESCHEDULER_DEPLOYMENTS, HYPER_CONVERGED, HYPER_CONVERGEDS, KUBE_DESCHEDULER,
    KUBE_DESCHEDULERS, MACHINE_CONFIG, MACHINE_CONFIG_POOLS, MACHINE_CONFIGS,
};
use super::pools::{self, ROLE};
use super::schema::Installed;
use super::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal, impact, settings};
use crate::intent::{Intent, Intents};
use crate::snapshot::{Snapshot, whole};

const OPTIONS_MEMBER: &str = "loadAware";
const PSI_ITEM: &str = "enable-psi-metrics";
const DESCHEDULER_ITEM: &str = "enable-load-aware-descheduling";
// The name sorts late on purpose: the Machine Config Operator concatenates kernel arguments by name
// (`MergeMachineConfigs` in pkg/controller/common/helpers.go), and the kernel uses the last one.
const PSI_CONFIG: &str = "99-worker-psi-karg";

/// Usable descheduler profiles, best first. The last one has no support for VMs.
const PROFILES: [&str; 3] = [
    "KubeVirtRelieveAndMigrate",
    "DevKubeVirtRelieveAndMigrate",
    "LongLifecycle",
];
/// Descheduler profiles that are compatible with ours, and are kept.
///
/// The CRD excludes most others beside ours by CEL rules (pkg/apis/descheduler/v1/types_descheduler.go of the
/// descheduler operator). As in the prototype, all others are dropped, which the diff of the plan shows.
const COMPATIBLE_PROFILES: [&str; 2] = ["AffinityAndTaints", "SoftTopologyAndDuplicates"];

const ABOUT: ProfileInfo = ProfileInfo {
    name: "load-aware-rebalancing",
    description: "Enables load-aware VM rebalancing and PSI metrics for intelligent scheduling",
    category: "scheduling",
    impact_summary: "Medium - May require node reboots if PSI metrics are enabled",
    impact: Impact::Medium,
    documentation_url: "https://github.com/medley-dev/medley/blob/main/docs/profiles/load-aware-rebalancing.md",
    advertised: true,
};

/// The profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadAwareRebalancing;

/// The options with their defaults.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    descheduling_interval_seconds: i32,
    mode: Mode,
    #[serde(rename = "enablePSIMetrics")]
    enable_psi_metrics: bool,
    dev_deviation_thresholds: DeviationThresholds,
    eviction_limit_total: Option<i32>,
    eviction_limit_node: Option<i32>,
}

impl Profile for LoadAwareRebalancing {
    fn about(&self) -> &ProfileInfo {
        &ABOUT
    }

    fn uses(&self) -> &[KindUse] {
        const {
            &[
                KUBE_DESCHEDULERS,
                DESCHEDULER_DEPLOYMENTS,
                MACHINE_CONFIGS,
                MACHINE_CONFIG_POOLS,
                HYPER_CONVERGEDS,
            ]
        }
    }

    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite> {
        let psi = options.load_aware.as_ref();
        let psi = psi.and_then(|options| options.enable_psi_metrics);
        let mut all = vec![Prerequisite {
            of: KUBE_DESCHEDULER,
            version: "v1",
            remedy: "Please install the Descheduler Operator via OLM",
        }];
        // The prototype always requires MachineConfigs, which excludes clusters without the Machine Config Operator.
        if psi.unwrap_or(true) {
            all.push(Prerequisite {
                of: MACHINE_CONFIG,
                version: "v1",
                remedy: "MachineConfig CRD is required for PSI metrics configuration (typically available on OpenShift)",
            });
        }
        all.push(Prerequisite {
            of: HYPER_CONVERGED,
            version: "v1beta1",
            remedy: "Please install OpenShift Virtualization via OLM",
        });
        all
    }

    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let settings: Settings = settings::complete(OPTIONS_MEMBER, options.load_aware.as_ref())?;
        let mut wanted = Intents::default();
        if settings.enable_psi_metrics {
            let (item, warnings) = psi(snapshot);
            wanted.items.push(item);
            wanted.warnings.extend(warnings);
        }
        descheduler(&settings, snapshot, &mut wanted);
        Ok(wanted)
    }

    fn adopt(&self, options: &ProfileOptions, drift: &Drift) -> Result<ProfileOptions, String> {
        adoption::adopt(drift, |edits| {
            let mut changes = Map::new();
            for edit in edits {
                let (name, value) = option_for(edit)?;
                changes.insert(name.to_owned(), value);
            }
            let amended = settings::amend(OPTIONS_MEMBER, options.load_aware.as_ref(), changes)?;
            Ok(ProfileOptions {
                load_aware: Some(amended),
                ..options.clone()
            })
        })
    }
}

/// The option that requests the manually set value.
fn option_for(edit: &Edit<'_>) -> Result<(&'static str, Value), String> {
    let name = match edit.path.as_str() {
        // Without the kernel argument the item is empty.
        "spec.kernelArguments" if edit.live.is_none() => {
            return Ok(("enablePSIMetrics", json!(false)));
        }
        "spec.deschedulingIntervalSeconds" => "deschedulingIntervalSeconds",
        "spec.mode" => "mode",
        "spec.profileCustomizations.devDeviationThresholds" => "devDeviationThresholds",
        "spec.evictionLimits.total" => "evictionLimitTotal",
        "spec.evictionLimits.node" => "evictionLimitNode",
        _ => return Err(edit.without_option(ABOUT.name)),
    };
    Ok((name, edit.value()?.clone()))
}

/// The item that enables PSI accounting on nodes.
fn psi(snapshot: &Snapshot) -> (Intent, Vec<String>) {
    let target = TargetRef {
        api_version: format!("{}/v1", MACHINE_CONFIG.group),
        kind: MACHINE_CONFIG.kind.to_owned(),
        name: PSI_CONFIG.to_owned(),
        namespace: None,
    };
    let desired = json!({
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": { "name": PSI_CONFIG, "labels": worker_labels() },
        "spec": { "kernelArguments": ["psi=1"] },
    });
    let pools = pools::taking(snapshot, &worker_labels());
    let mut warnings: Vec<String> = pools::warning(&pools, PSI_CONFIG, "worker")
        .into_iter()
        .collect();

    for pool in &pools {
        if let Some(config) = pool.psi_overridden(PSI_CONFIG) {
            warnings.push(format!(
                "MachineConfig '{config}' turns PSI metrics off behind '{PSI_CONFIG}': they stay off in {}",
                pools::named([pool])
            ));
        }
    }

    let live = snapshot.target(&target).map(|live| whole(live));
    let in_force = live
        .as_ref()
        .is_some_and(|live| impact::in_force(live, &desired));
    // Other arguments in the MachineConfig would be lost.
    let loses_others = live.as_ref().is_some_and(|live| {
        let mut arguments = pools::kernel_arguments(live);
        arguments.any(|argument| argument != "psi" && !argument.starts_with("psi="))
    });
    let mut severity = impact::of_machine_config(&target, &desired, snapshot);
    let mut message =
        format!("MachineConfig '{PSI_CONFIG}' will be configured to enable PSI metrics");
    if let Some(effective) = effective(&pools)
        && !loses_others
    {
        severity = Impact::Low;
        message = format!("PSI metrics already effective in {effective}");
        if !in_force {
            // The Machine Config Operator compares lists of arguments, not their effect.
            warnings.push(format!(
                "PSI metrics are effective without MachineConfig '{PSI_CONFIG}': applying it repeats a \
                 kernel argument, and nodes may reboot for that; with enablePSIMetrics=false it is left out"
            ));
        }
    }
    let item = Intent {
        name: PSI_ITEM,
        target,
        desired,
        managed: vec!["spec.kernelArguments".to_owned()],
        impact: severity,
        message,
        depends_on: Vec::new(),
    };
    (item, warnings)
}

fn worker_labels() -> Value {
    json!({ ROLE: "worker" })
}

/// The names of the pools, if PSI is enabled in all of them.
fn effective(pools: &[pools::Pool<'_>]) -> Option<String> {
    let populated = pools::populated(pools);
    let effective = !populated.is_empty() && populated.iter().all(|pool| pool.has_psi());
    effective.then(|| pools::named(populated))
}

/// The item that configures the descheduler.
fn descheduler(settings: &Settings, snapshot: &Snapshot, wanted: &mut Intents) {
    let installed = Installed::of(snapshot, KUBE_DESCHEDULER);
    let target = TargetRef {
        api_version: format!("{}/v1", KUBE_DESCHEDULER.group),
        kind: KUBE_DESCHEDULER.kind.to_owned(),
        name: "cluster".to_owned(),
        namespace: Some("openshift-kube-descheduler-operator".to_owned()),
    };
    let live = snapshot.target(&target);
    let profile = choose(&installed);

    let mut spec = Map::new();
    // The operator ignores the object unless it is Managed.
    spec.insert("managementState".into(), json!("Managed"));
    spec.insert(
        "deschedulingIntervalSeconds".into(),
        json!(settings.descheduling_interval_seconds),
    );
    // Explicit: the CRD's default is Predictive, which only simulates evictions.
    spec.insert("mode".into(), json!(settings.mode));
    let live_spec = live.and_then(|live| live.data.get("spec"));
    spec.insert("profiles".into(), json!(profiles(live_spec, profile)));
    if profile.ends_with("RelieveAndMigrate") {
        let (customizations, warnings) = customizations(settings, &installed, live_spec);
        wanted.warnings.extend(warnings);
        let (limits, inputs) = eviction_limits(settings, &installed, snapshot);
        wanted.inputs.extend(inputs);
        let parts = [
            ("profileCustomizations", customizations),
            ("evictionLimits", limits),
        ];
        for (name, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            spec.insert(name.into(), Value::Object(part));
        }
        let pools = pools::taking(snapshot, &worker_labels());
        if !settings.enable_psi_metrics && effective(&pools).is_none() {
            wanted.warnings.push(format!(
                "PSI metrics are neither asked for (enablePSIMetrics is false) nor seen to be effective on \
                 worker nodes: the descheduler operator refuses profile '{profile}' without them, and runs \
                 no descheduler"
            ));
        }
    } else {
        wanted.warnings.push(format!(
            "The installed KubeDescheduler has no profile that knows of VMs: '{profile}' is used, which \
             takes neither deviation thresholds nor eviction limits"
        ));
    }

    // In the order of the documentation.
    let managed = [
        "managementState",
        "deschedulingIntervalSeconds",
        "mode",
        "profiles",
        "profileCustomizations",
        "evictionLimits",
    ];
    let managed = managed.iter().filter(|name| spec.contains_key(**name));
    // On PSI, if it is requested: without it the operator rejects the profile ("can only be used when PSI metrics are
    // enabled" in pkg/operator/target_config_reconciler.go) and scales the descheduler to zero.
    let depends_on = wanted.items.iter().map(|item| item.name).collect();
    wanted.items.push(Intent {
        name: DESCHEDULER_ITEM,
        managed: managed.map(|name| format!("spec.{name}")).collect(),
        desired: json!({
            "apiVersion": target.api_version,
            "kind": target.kind,
            "metadata": { "name": target.name, "namespace": target.namespace },
            "spec": spec,
        }),
        target,
        impact: if live.is_some() {
            Impact::Low
        } else {
            Impact::Medium
        },
        message: format!("KubeDescheduler 'cluster' will be configured with profile '{profile}'"),
        depends_on,
    });
}

/// The best descheduler profile that the installed operator offers.
fn choose(installed: &Installed) -> &'static str {
    let known = installed.values("spec.profiles.[]").unwrap_or_default();
    let best = PROFILES.into_iter().find(|profile| known.contains(profile));
    // The schema is not readable. Current operators offer this one, and an older one rejects it in the dry run.
    best.unwrap_or(PROFILES[0])
}

/// Our profile after the compatible live ones.
fn profiles<'a>(live: Option<&'a Value>, ours: &'a str) -> Vec<&'a str> {
    let live = live.and_then(|spec| spec.get("profiles")?.as_array());
    let live = live.into_iter().flatten().filter_map(Value::as_str);
    let mut all: Vec<&str> = Vec::new();
    for profile in live
        .filter(|profile| COMPATIBLE_PROFILES.contains(profile))
        .chain([ours])
    {
        // The operator rejects duplicates.
        if !all.contains(&profile) {
            all.push(profile);
        }
    }
    all
}

/// The profile customizations that the installed operator supports.
fn customizations(
    settings: &Settings,
    installed: &Installed,
    live: Option<&Value>,
) -> (Map<String, Value>, Vec<String>) {
    let path = |name: &str| format!("spec.profileCustomizations.{name}");
    let mut all = Map::new();
    let mut warnings = Vec::new();
    if installed.accepts(&path("devEnableEvictionsInBackground")) {
        all.insert("devEnableEvictionsInBackground".into(), json!(true));
    }
    // Newer operators always taint, and ignore the field.
    if installed.heeds(&path("devEnableSoftTainter")) {
        all.insert("devEnableSoftTainter".into(), json!(true));
    }
    let thresholds = path("devDeviationThresholds");
    let chosen = settings.dev_deviation_thresholds.as_str();
    let values = installed.values(&thresholds);
    if !installed.accepts(&thresholds) {
        warnings.push(
            "The installed KubeDescheduler has no devDeviationThresholds: the option is left out"
                .to_owned(),
        );
    } else if let Some(values) = values
        && !values.contains(&chosen)
    {
        warnings.push(format!(
            "The installed KubeDescheduler has no devDeviationThresholds '{chosen}', only {}: the option is \
             left out",
            values.join(", ")
        ));
    } else {
        all.insert("devDeviationThresholds".into(), json!(chosen));
        let rival = live.and_then(|spec| {
            spec.pointer("/profileCustomizations/devLowNodeUtilizationThresholds")
        });
        if rival.is_some_and(|rival| !rival.is_null()) {
            warnings.push(
                "KubeDescheduler 'cluster' has devLowNodeUtilizationThresholds, which excludes \
                 devDeviationThresholds: the descheduler operator refuses to run until it is removed"
                    .to_owned(),
            );
        }
    }
    (all, warnings)
}

/// The eviction limits and their inputs.
fn eviction_limits(
    settings: &Settings,
    installed: &Installed,
    snapshot: &Snapshot,
) -> (Map<String, Value>, Vec<Input>) {
    let given = [settings.eviction_limit_total, settings.eviction_limit_node];
    let mut all = Map::new();
    let mut inputs = Vec::new();
    for (limit, given) in limits::ALL.iter().zip(given) {
        if !installed.accepts(&format!("spec.evictionLimits.{}", limit.field)) {
            continue;
        }
        let value = given.unwrap_or_else(|| {
            let input = limit.derive(snapshot);
            let derived = limit.value_of(&input);
            inputs.push(input);
            derived
        });
        all.insert(limit.field.into(), json!(value));
    }
    (all, inputs)
}
