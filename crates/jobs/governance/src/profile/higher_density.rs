//! `virt-higher-density`: more VMs per node by memory overcommit, KSM and swap.

#[cfg(test)]
mod tests;

use api::advisor::{Drift, Impact, KsmConfiguration, ProfileOptions, TargetRef};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::adoption::{self, Edit};
use super::hyperconverged::{self, HyperConverged};
use super::kinds::{
    HYPER_CONVERGED, HYPER_CONVERGEDS, MACHINE_CONFIG, MACHINE_CONFIG_POOLS, MACHINE_CONFIGS,
    MACHINE_CONFIGURATIONS,
};
use super::pools::{self, ROLE};
use super::{KindUse, Prerequisite, Profile, ProfileInfo, Refusal, impact, settings, swap};
use crate::intent::{Intent, Intents};
use crate::snapshot::Snapshot;

const OPTIONS_MEMBER: &str = "virtHigherDensity";
const SWAP_ITEM: &str = "enable-kubelet-swap";
const DENSITY_ITEM: &str = "configure-higher-density";
const SWAP_CONFIG: &str = "90-worker-kubelet-swap";
const OVERCOMMIT: &str = "higherWorkloadDensity.memoryOvercommitPercentage";
const KSM: &str = "ksmConfiguration";

/// The highest overcommit percentage that works without swap.
const MAX_OVERCOMMIT_WITHOUT_SWAP: i32 = 120;

const ABOUT: ProfileInfo = ProfileInfo {
    name: "virt-higher-density",
    description: "Enables higher VM density through swap and other optimizations",
    category: "density",
    impact_summary: "Enables swap for kubelet to allow memory overcommit and higher VM density. Requires nodes with swap partition labeled CNV_SWAP.",
    impact: Impact::High,
    documentation_url: "https://github.com/medley-dev/medley/blob/main/docs/profiles/virt-higher-density.md",
    advertised: true,
};

/// The profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct VirtHigherDensity;

/// The options with their defaults.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    enable_swap: bool,
    #[serde(default)]
    ksm_configuration: KsmConfiguration,
    memory_to_request_ratio: i32,
}

impl Profile for VirtHigherDensity {
    fn about(&self) -> &ProfileInfo {
        &ABOUT
    }

    fn uses(&self) -> &[KindUse] {
        const {
            &[
                MACHINE_CONFIGS,
                MACHINE_CONFIG_POOLS,
                MACHINE_CONFIGURATIONS,
                HYPER_CONVERGEDS,
            ]
        }
    }

    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite> {
        let swap = options.virt_higher_density.as_ref();
        let swap = swap.and_then(|options| options.enable_swap);
        let mut all = Vec::new();
        if swap.unwrap_or(true) {
            all.push(Prerequisite {
                of: MACHINE_CONFIG,
                version: "v1",
                remedy: "MachineConfig CRD is required for swap configuration (available on OpenShift)",
            });
        }
        all.push(Prerequisite {
            of: HYPER_CONVERGED,
            version: "v1beta1",
            remedy: "Install OpenShift Virtualization via OLM",
        });
        all
    }

    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let settings: Settings =
            settings::complete(OPTIONS_MEMBER, options.virt_higher_density.as_ref())?;
        let mut wanted = Intents::default();
        if settings.enable_swap {
            swapping(snapshot, &mut wanted);
        }
        density(&settings, snapshot, &mut wanted);
        Ok(wanted)
    }

    fn adopt(&self, options: &ProfileOptions, drift: &Drift) -> Result<ProfileOptions, String> {
        adoption::adopt(drift, |edits| {
            let given = options.virt_higher_density.as_ref();
            let mut changes = Map::new();
            for edit in edits {
                let (name, value) = option_for(edit)?;
                changes.insert(name.to_owned(), value);
            }
            let amended = settings::amend(OPTIONS_MEMBER, given, changes)?;
            Ok(ProfileOptions {
                virt_higher_density: Some(amended),
                ..options.clone()
            })
        })
    }
}

/// The option that requests the manually set value.
fn option_for(edit: &Edit<'_>) -> Result<(&'static str, Value), String> {
    let path = hyperconverged::flat_path(&edit.path);
    match path.strip_prefix("spec.").unwrap_or_default() {
        // Without this field the item is empty.
        "config" if edit.live.is_none() => Ok(("enableSwap", json!(false))),
        OVERCOMMIT => Ok(("memoryToRequestRatio", edit.value()?.clone())),
        KSM => {
            let Some(live) = edit.live else {
                return Ok(("ksmConfiguration", json!({ "enabled": false })));
            };
            let selector = live.get("nodeLabelSelector").filter(|some| !some.is_null());
            Ok(("ksmConfiguration", ksm_on(selector)))
        }
        "ksmConfiguration.nodeLabelSelector" => {
            let selector = edit.value()?;
            Ok(("ksmConfiguration", ksm_on(Some(selector))))
        }
        _ => Err(edit.without_option(ABOUT.name)),
    }
}

fn ksm_on(selector: Option<&Value>) -> Value {
    let mut on = json!({ "enabled": true });
    if let Some(selector) = selector {
        on["nodeLabelSelector"] = selector.clone();
    }
    on
}

/// The item that enables swap for kubelets.
fn swapping(snapshot: &Snapshot, wanted: &mut Intents) {
    let target = TargetRef {
        api_version: format!("{}/v1", MACHINE_CONFIG.group),
        kind: MACHINE_CONFIG.kind.to_owned(),
        name: SWAP_CONFIG.to_owned(),
        namespace: None,
    };
    let labels = json!({ ROLE: "worker" });
    let desired = json!({
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": { "name": SWAP_CONFIG, "labels": labels },
        "spec": { "config": swap::ignition() },
    });
    wanted.warnings.push(format!(
        "Worker nodes need a partition labelled {} to swap: nodes without it run without swap",
        swap::PARTITION_LABEL
    ));
    let pools = pools::taking(snapshot, &labels);
    wanted
        .warnings
        .extend(pools::warning(&pools, SWAP_CONFIG, "worker"));
    wanted.items.push(Intent {
        name: SWAP_ITEM,
        impact: impact::of_machine_config(&target, &desired, snapshot),
        target,
        desired,
        managed: vec!["spec.config".to_owned()],
        message: format!("MachineConfig '{SWAP_CONFIG}' will be configured to enable kubelet swap"),
        depends_on: Vec::new(),
    });
}

/// The item that configures memory overcommit and KSM.
fn density(settings: &Settings, snapshot: &Snapshot, wanted: &mut Intents) {
    let virtualization = HyperConverged::of(snapshot);
    let ratio = settings.memory_to_request_ratio;
    let mut managed = vec![virtualization.path(OVERCOMMIT)];
    let mut fields = Map::new();
    fields.insert(
        "higherWorkloadDensity".into(),
        json!({ "memoryOvercommitPercentage": ratio }),
    );
    let mut message = format!(
        "HyperConverged '{}' will be configured with memoryOvercommitPercentage={ratio}",
        hyperconverged::NAME
    );
    let ksm = &settings.ksm_configuration;
    // On unless it is disabled, as the prototype's code has it; its README describes the opposite.
    if ksm.enabled.unwrap_or(true) {
        let selector = ksm.node_label_selector.clone().unwrap_or_default();
        fields.insert(KSM.into(), json!({ "nodeLabelSelector": selector }));
        managed.push(virtualization.path(KSM));
        message.push_str(" and KSM enabled");
    }
    if !virtualization.exists() {
        wanted.warnings.push(format!(
            "{} does not exist: applying the plan creates it, and with it an installation of virtualization",
            virtualization.target
        ));
    }
    let spec = virtualization.spec(fields);
    let target = virtualization.target;
    let desired = json!({
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": { "name": target.name, "namespace": target.namespace },
        "spec": spec,
    });
    // More VMs than memory before swap works would end in the OOM killer. Below the limit both items are independent,
    // and either may be approved alone.
    let relies_on_swap = ratio > MAX_OVERCOMMIT_WITHOUT_SWAP && settings.enable_swap;
    wanted.items.push(Intent {
        name: DENSITY_ITEM,
        impact: impact::of_change(&target, &desired, snapshot, Impact::Medium),
        target,
        desired,
        managed,
        message,
        depends_on: if relies_on_swap {
            vec![SWAP_ITEM]
        } else {
            Vec::new()
        },
    });
}
