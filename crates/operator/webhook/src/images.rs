//! Reviews of what images are made of, in the words of upstream's webhooks.

mod copy;
mod machine;

use std::collections::BTreeSet;

use api::cdi::DataImportCron;
use api::hco::{Images, MULTI_ARCH, MULTI_ARCH_PROPOSED, Version, v1, v1beta1};
use api::ssp::SSP;
use golden_images::hco::admission::Changes;
use golden_images::{cdi, hco, ssp};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::review::{Refusal, User, allowed, denied, read_object as read};

/// A layer of images whose objects are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// HyperConvergeds.
    Hco,
    /// SSPs.
    Ssp,
    /// DataImportCrons and DataVolumes.
    Cdi,
    /// VirtualMachines.
    Vm,
}

/// What a layer is about.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) versions: &'static [&'static str],
    /// The first is the one that gives the check its name.
    pub(crate) plurals: &'static [&'static str],
}

/// DataVolumes, among what is checked.
const VOLUMES: &str = "datavolumes";

impl Layer {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Hco, Self::Ssp, Self::Cdi, Self::Vm];

    /// What is checked.
    pub(crate) fn kind(self) -> Kind {
        let (group, versions, plurals): (_, &[_], &[_]) = match self {
            Self::Hco => ("hco.kubevirt.io", &["v1", "v1beta1"], &["hyperconvergeds"]),
            Self::Ssp => ("ssp.kubevirt.io", &["v1beta3"], &["ssps"]),
            Self::Cdi => (
                "cdi.kubevirt.io",
                &["v1beta1"],
                &["dataimportcrons", VOLUMES],
            ),
            Self::Vm => ("kubevirt.io", &["v1"], &["virtualmachines"]),
        };
        Kind {
            group,
            versions,
            plurals,
        }
    }

    /// The layer that a kind belongs to.
    pub(crate) fn of(group: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| {
            let kind = layer.kind();
            kind.group == group && kind.plurals.contains(&plural)
        })
    }
}

/// What is asked about.
pub(crate) struct Asked {
    /// Who asks.
    pub(crate) user: User,
    /// The kind.
    pub(crate) plural: String,
    /// The version that it is written in.
    pub(crate) version: String,
    /// What there is, unless it is made.
    pub(crate) old: Option<Value>,
    /// What there is to be.
    pub(crate) new: Value,
}

/// Answers a question about an object of a layer.
pub(crate) async fn review(client: &Client, layer: Layer, asked: Asked) -> Result<Value, Refusal> {
    match layer {
        Layer::Hco => hyperconverged(&asked),
        Layer::Ssp => ssp(client, &asked).await,
        Layer::Cdi if asked.plural == VOLUMES => copy::review(client, &asked).await,
        Layer::Cdi => cron(&asked),
        Layer::Vm => machine::review(client, &asked.new).await,
    }
}

fn hyperconverged(asked: &Asked) -> Result<Value, Refusal> {
    let images = |object: &Value| -> Result<Images, Refusal> {
        match asked.version.as_str() {
            "v1" => Ok(read::<v1::HyperConverged>(object)?.into()),
            "v1beta1" => Ok(read::<v1beta1::HyperConverged>(object)?.into()),
            other => Err(Refusal::bad(format!(
                "The object is of version {other:?}; v1 and v1beta1 are decided on here"
            ))),
        }
    };
    let old = asked.old.as_ref().map(images).transpose()?;
    let new = images(&asked.new)?;
    Ok(match hco::admission::review(old.as_ref(), &new) {
        hco::admission::Verdict::Denied(denial) => denied(&denial.to_string()),
        hco::admission::Verdict::Accepted(changes) => {
            let spec = filled_in(new.version, &asked.new["spec"], &changes);
            let patch = (spec != asked.new["spec"])
                .then(|| json!({ "op": "add", "path": "/spec", "value": spec }));
            allowed(patch.into_iter().collect(), changes.warnings)
        }
    })
}

/// The specification of a HyperConverged with what is filled in.
fn filled_in(version: Version, spec: &Value, changes: &Changes) -> Value {
    let mut spec = spec.clone();
    let sources = |spec: &mut Value, name: &str, value: Value| match version {
        Version::V1 => spec["workloadSources"][name] = value,
        Version::V1Beta1 => spec[name] = value,
    };
    if let Some(on) = changes.field {
        sources(&mut spec, MULTI_ARCH, json!(on));
    }
    if let Some(templates) = &changes.templates {
        sources(&mut spec, "dataImportCronTemplates", json!(templates));
    }
    if changes.remove_gates
        && let Some(gates) = spec["featureGates"].as_array_mut()
    {
        let goes = |gate: &Value| {
            let name = gate["name"].as_str().unwrap_or_default();
            [MULTI_ARCH, MULTI_ARCH_PROPOSED]
                .iter()
                .any(|gone| name.eq_ignore_ascii_case(gone))
        };
        gates.retain(|gate| !goes(gate));
    }
    spec
}

async fn ssp(client: &Client, asked: &Asked) -> Result<Value, Refusal> {
    let new: SSP = read(&asked.new)?;
    let creates = asked.old.is_none();
    let mut others = BTreeSet::new();
    if creates {
        let api: Api<SSP> = Api::all(client.clone());
        let found = api.list(&ListParams::default()).await;
        let found = found.map_err(|error| Refusal {
            code: 500,
            message: runtime::Error::api("listing SSPs")(error).to_string(),
        })?;
        let found = found.items.into_iter();
        others.extend(found.filter_map(|it| it.metadata.namespace));
    }
    Ok(match ssp::admission::review(&new, &others, creates) {
        ssp::admission::Verdict::Denied(denial) => denied(&denial.to_string()),
        ssp::admission::Verdict::Accepted(warnings) => allowed(Vec::new(), warnings),
    })
}

fn cron(asked: &Asked) -> Result<Value, Refusal> {
    let old: Option<DataImportCron> = asked.old.as_ref().map(read).transpose()?;
    let wrong = cdi::admission::review(old.as_ref(), &read(&asked.new)?);
    if wrong.is_empty() {
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    Ok(denied(&all.join("; ")))
}
