//! Admission of golden image objects, with the messages of upstream's webhooks.

mod clone;
mod machine;

use std::collections::BTreeSet;

use api::cdi::DataImportCron;
use api::hco::{Images, v1, v1beta1};
use api::ssp::SSP;
use golden_images::{cdi, hco, ssp};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::api::ListParams;
use kube::core::GroupVersionResource;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::review::{Refusal, allowed, denied, read_object as read};

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
    pub(crate) user: UserInfo,
    /// The resource, and the version of the objects.
    pub(crate) resource: GroupVersionResource,
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
        Layer::Cdi if request.resource.resource == VOLUMES => clone::review(client, &request).await,
        Layer::Cdi => cron(&request),
        Layer::Vm => machine::review(client, &request.new).await,
    }
}

fn hyperconverged(request: &ImageRequest) -> Result<Value, Refusal> {
    let images = |object: &Value| -> Result<Images, Refusal> {
        match request.resource.version.as_str() {
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
            let spec = changes.apply_to(new.version, &request.new["spec"]);
            let patch = (spec != request.new["spec"])
                .then(|| json!({ "op": "add", "path": "/spec", "value": spec }));
            allowed(patch.into_iter().collect(), changes.warnings)
        }
    })
}

async fn ssp(client: &Client, request: &ImageRequest) -> Result<Value, Refusal> {
    let new: SSP = read(&request.new)?;
    let creates = request.old.is_none();
    let mut others = BTreeSet::new();
    // There may be one SSP in a cluster; only a new one can violate that, so updates cost no list.
    if creates {
        let api: Api<SSP> = Api::all(client.clone());
        let found = api.list(&ListParams::default()).await;
        let found = found.map_err(Refusal::api("listing SSPs"))?;
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
