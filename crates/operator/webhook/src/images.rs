//! Admission of golden image objects, with the messages of upstream's webhooks.

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

/// A layer of golden images whose objects are admitted.
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

/// Resources of a layer.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) versions: &'static [&'static str],
    /// The first one names the webhook.
    pub(crate) plurals: &'static [&'static str],
}

/// Resource name of DataVolumes.
const VOLUMES: &str = "datavolumes";

impl Layer {
    /// All layers.
    pub const ALL: [Self; 4] = [Self::Hco, Self::Ssp, Self::Cdi, Self::Vm];

    /// Resources of the layer.
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

    /// The layer of a resource.
    pub(crate) fn of(group: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| {
            let kind = layer.kind();
            kind.group == group && kind.plurals.contains(&plural)
        })
    }
}

/// A request.
pub(crate) struct ImageRequest {
    /// The requesting user.
    pub(crate) user: User,
    /// Resource name.
    pub(crate) plural: String,
    /// API version of the objects.
    pub(crate) version: String,
    /// The existing object; `None` on CREATE.
    pub(crate) old: Option<Value>,
    /// The object under admission.
    pub(crate) new: Value,
}

/// Answers a review.
pub(crate) async fn review(
    client: &Client,
    layer: Layer,
    request: ImageRequest,
) -> Result<Value, Refusal> {
    match layer {
        Layer::Hco => hyperconverged(&request),
        Layer::Ssp => ssp(client, &request).await,
        Layer::Cdi if request.plural == VOLUMES => copy::review(client, &request).await,
        Layer::Cdi => cron(&request),
        Layer::Vm => machine::review(client, &request.new).await,
    }
}

fn hyperconverged(request: &ImageRequest) -> Result<Value, Refusal> {
    let images = |object: &Value| -> Result<Images, Refusal> {
        match request.version.as_str() {
            "v1" => Ok(read::<v1::HyperConverged>(object)?.into()),
            "v1beta1" => Ok(read::<v1beta1::HyperConverged>(object)?.into()),
            other => Err(Refusal::bad(format!(
                "The object is of version {other:?}; v1 and v1beta1 are accepted"
            ))),
        }
    };
    let old = request.old.as_ref().map(images).transpose()?;
    let new = images(&request.new)?;
    Ok(match hco::admission::review(old.as_ref(), &new) {
        hco::admission::HcoAdmission::Denied(denial) => denied(&denial.to_string()),
        hco::admission::HcoAdmission::Accepted(changes) => {
            let spec = filled_in(new.version, &request.new["spec"], &changes);
            let patch = (spec != request.new["spec"])
                .then(|| json!({ "op": "add", "path": "/spec", "value": spec }));
            allowed(patch.into_iter().collect(), changes.warnings)
        }
    })
}

/// The spec of a HyperConverged with defaults set.
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

async fn ssp(client: &Client, request: &ImageRequest) -> Result<Value, Refusal> {
    let new: SSP = read(&request.new)?;
    let creates = request.old.is_none();
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
        ssp::admission::SspAdmission::Denied(denial) => denied(&denial.to_string()),
        ssp::admission::SspAdmission::Accepted(warnings) => allowed(Vec::new(), warnings),
    })
}

fn cron(request: &ImageRequest) -> Result<Value, Refusal> {
    let old: Option<DataImportCron> = request.old.as_ref().map(read).transpose()?;
    let wrong = cdi::admission::review(old.as_ref(), &read(&request.new)?);
    if wrong.is_empty() {
        return Ok(allowed(Vec::new(), Vec::new()));
    }
    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    Ok(denied(&all.join("; ")))
}
