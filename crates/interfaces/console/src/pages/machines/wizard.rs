//! The wizard for a virtual machine: first the architecture, then the image, then the resources.
//!
//! Each step is a page with its own URL, so that it works without JavaScript, and going back
//! changes a choice.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataSource, labels};
use api::cpu::CpuModelPolicy;
use api::kubevirt::VirtualMachine;
use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cpu_models::host_model_of;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde::Deserialize;

use super::PATH;
use super::build::{Choice, machine};
use crate::error::Problem;
use crate::layout::Layout;
use crate::pages::Page;
use crate::permissions::Permission;
use crate::viewer::{Unavailable, Viewer, shown};
use crate::visitor::{Fields, Visitor};

/// Label of nodes that run virtual machines.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// Namespaces checked one by one, for users who may not create VMs in all namespaces.
// A SelfSubjectAccessReview each, while the user waits for the page.
const MAX_NAMESPACES_CHECKED: usize = 50;

/// Progress of the wizard.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chosen {
    arch: Option<String>,
    image: Option<String>,
    template: Option<String>,
}

/// An available architecture.
struct Architecture {
    name: String,
    nodes: usize,
    generations: String,
    images: usize,
}

/// An image to boot from.
struct Image {
    /// Namespace and name.
    value: String,
    name: String,
    namespace: String,
    /// Whether its architecture is known.
    labelled: bool,
    ready: bool,
    why: String,
}

/// A template to start from.
struct TemplateLine {
    name: String,
    title: String,
    image: String,
    cores: String,
    memory: String,
}

/// Initial values of the last step.
struct Details {
    image: String,
    template: Option<String>,
    cores: String,
    memory: String,
    namespaces: Vec<String>,
    /// Whether Medley can choose the CPU model.
    can_match: bool,
}

#[derive(Template)]
#[template(path = "wizard.html")]
struct Wizard {
    layout: Layout,
    architectures: Result<Vec<Architecture>, Unavailable>,
    architecture: Option<String>,
    images: Result<Vec<Image>, Unavailable>,
    templates: Vec<TemplateLine>,
    details: Option<Details>,
}

pub(super) async fn show(
    visitor: Visitor,
    Query(chosen): Query<Chosen>,
) -> Result<Response, Problem> {
    let viewer = visitor.viewer();
    let sources = shown(viewer.all::<DataSource>().await)?;
    let architectures = architectures(viewer, sources.as_deref().unwrap_or_default()).await;
    let architecture = chosen.arch.filter(|it| !it.is_empty());
    let images = sources.map(|sources| {
        let wanted = architecture.as_deref().unwrap_or_default();
        let of = sources.iter().filter(|it| is_offered(it, wanted));
        let mut images: Vec<Image> = of.map(|it| image(it)).collect();
        images.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        images
    });
    let templates = match &architecture {
        Some(architecture) => templates(viewer, architecture).await,
        None => Vec::new(),
    };
    let details = match (&architecture, chosen.image, chosen.template) {
        (Some(architecture), image, template) if image.is_some() || template.is_some() => {
            let template = templates
                .iter()
                .find(|it| Some(&it.name) == template.as_ref());
            let image = image.or_else(|| template.map(|it| it.image.clone()));
            details(viewer, architecture, image, template).await
        }
        _ => None,
    };
    Page::html(&Wizard {
        layout: visitor.layout("New virtual machine", PATH),
        architectures,
        architecture,
        images,
        templates,
        details,
    })
}

/// The architectures of the nodes that run virtual machines.
async fn architectures(
    viewer: &Viewer,
    sources: &[std::sync::Arc<DataSource>],
) -> Result<Vec<Architecture>, Unavailable> {
    let nodes = viewer.all::<Node>().await?;
    let mut found: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for node in &nodes {
        let runs = node
            .labels()
            .get(SCHEDULABLE)
            .is_some_and(|it| it == "true");
        if let (true, Some(architecture)) = (runs, api::node::architecture(node)) {
            let (count, generations) = found.entry(architecture).or_default();
            *count += 1;
            generations.extend(host_model_of(node));
        }
    }
    let lines = found.into_iter().map(|(name, (nodes, generations))| {
        let generations: Vec<&str> = generations.into_iter().collect();
        let images = sources.iter().filter(|it| is_offered(it, name));
        Architecture {
            images: images.count(),
            name: name.to_owned(),
            nodes,
            generations: generations.join(", "),
        }
    });
    Ok(lines.collect())
}

fn architecture_of(source: &DataSource) -> &str {
    source
        .labels()
        .get(labels::ARCHITECTURE)
        .map_or("", String::as_str)
}

/// Whether an image is offered for an architecture: it is labelled with it, or not labelled at all,
/// as where images are not kept by architecture. A DataSource that points to another one is offered
/// as that one.
fn is_offered(source: &DataSource, architecture: &str) -> bool {
    let is_pointer = source.spec.source.data_source.is_some();
    let of = architecture_of(source);
    of == architecture || (of.is_empty() && !is_pointer)
}

fn image(source: &DataSource) -> Image {
    let conditions = source.status.iter().flat_map(|it| &it.conditions);
    let ready = conditions.clone().find(|it| it.kind == "Ready");
    let (namespace, name) = (source.namespace().unwrap_or_default(), source.name_any());
    Image {
        value: format!("{namespace}/{name}"),
        labelled: !architecture_of(source).is_empty(),
        ready: ready.is_some_and(|it| it.status == "True"),
        why: ready.and_then(|it| it.message.clone()).unwrap_or_default(),
        name,
        namespace,
    }
}

/// The templates of an architecture; empty where there are none, or none that the user may read.
async fn templates(viewer: &Viewer, architecture: &str) -> Vec<TemplateLine> {
    let kind = GroupVersionKind::gvk("template.openshift.io", "v1", "Template");
    let api: Api<DynamicObject> =
        Api::all_with(viewer.client().clone(), &ApiResource::from_gvk(&kind));
    let params = ListParams::default().labels(&format!("{}={architecture}", labels::ARCHITECTURE));
    let found = api.list(&params).await.map(|it| it.items);
    let mut lines: Vec<TemplateLine> = found.unwrap_or_default().iter().map(template).collect();
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    lines
}

fn template(template: &DynamicObject) -> TemplateLine {
    let data = &template.data;
    let parameter = |name: &str| {
        let all = data["parameters"].as_array().into_iter().flatten();
        let value = all
            .filter(|it| it["name"] == name)
            .find_map(|it| it["value"].as_str());
        value.unwrap_or_default().to_owned()
    };
    let domain = &data["objects"][0]["spec"]["template"]["spec"]["domain"];
    let cores = domain["cpu"]["cores"].as_u64().unwrap_or(1);
    let memory = domain["memory"]["guest"].as_str();
    let memory = memory.or_else(|| domain["resources"]["requests"]["memory"].as_str());
    let title = template.annotations().get("openshift.io/display-name");
    let namespace = parameter("DATA_SOURCE_NAMESPACE");
    let image = parameter("DATA_SOURCE_NAME");
    TemplateLine {
        name: template.name_any(),
        title: title.cloned().unwrap_or_default(),
        image: if image.is_empty() {
            image
        } else {
            format!("{namespace}/{image}")
        },
        cores: cores.to_string(),
        memory: memory.unwrap_or("2Gi").to_owned(),
    }
}

async fn details(
    viewer: &Viewer,
    architecture: &str,
    image: Option<String>,
    template: Option<&TemplateLine>,
) -> Option<Details> {
    let image = image.filter(|it| !it.is_empty())?;
    let can_match = architecture == "amd64" && viewer.all::<CpuModelPolicy>().await.is_ok();
    Some(Details {
        image,
        template: template.map(|it| it.name.clone()),
        cores: template.map_or_else(|| "1".to_owned(), |it| it.cores.clone()),
        memory: template.map_or_else(|| "2Gi".to_owned(), |it| it.memory.clone()),
        namespaces: namespaces(viewer).await,
        can_match,
    })
}

/// Namespaces where the user may create VMs.
async fn namespaces(viewer: &Viewer) -> Vec<String> {
    let all = viewer.all::<Namespace>().await.unwrap_or_default();
    let mut names: Vec<String> = all.iter().map(|it| it.name_any()).collect();
    names.sort();
    if viewer
        .may(&Permission::to::<VirtualMachine>("create", None))
        .await
    {
        return names;
    }
    let mut allowed = Vec::new();
    for name in names.into_iter().take(MAX_NAMESPACES_CHECKED) {
        let permission = Permission::to::<VirtualMachine>("create", Some(&name));
        if viewer.may(&permission).await {
            allowed.push(name);
        }
    }
    allowed
}

/// Creates the VM, as the user.
pub(super) async fn create(visitor: Visitor, fields: Fields) -> Result<Response, Problem> {
    let architecture = fields.need("arch")?;
    let image = fields.need("image")?;
    let Some(image) = image.split_once('/') else {
        return Err(Problem::invalid(format!(
            "{image:?} is not an image: use namespace/name of a DataSource."
        )));
    };
    // Again, although the page offered only fitting images: the form may be old, or not come from
    // the page at all.
    check(visitor.viewer(), image, architecture).await?;
    let object = machine(&Choice {
        name: fields.need("name")?,
        namespace: fields.need("namespace")?,
        architecture,
        image,
        cores: fields.need("cores")?,
        memory: fields.need("memory")?,
        disk: fields.get("disk"),
        model: fields.get("model"),
        template: fields.get("template"),
        start: fields.get("start").is_some(),
    })
    .map_err(Problem::invalid)?;
    let object: VirtualMachine = serde_json::from_value(object).map_err(|error| {
        Problem::broken(format!("The virtual machine cannot be serialized: {error}"))
    })?;
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<VirtualMachine> = Api::namespaced(visitor.client().clone(), &namespace);
    let params = PostParams {
        field_manager: Some(crate::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = api
        .create(&params, &object)
        .await
        .map_err(|error| Problem::api("The virtual machine was not created", error))?;
    visitor.viewer().saw(&made).await;
    let message = format!(
        "Virtual machine {namespace}/{} was created.",
        made.name_any()
    );
    Ok(visitor.done(message, PATH))
}

/// Checks that the image is of the architecture, where that is known.
async fn check(
    viewer: &Viewer,
    (namespace, name): (&str, &str),
    architecture: &str,
) -> Result<(), Problem> {
    let api: Api<DataSource> = Api::namespaced(viewer.client().clone(), namespace);
    let found = api
        .get_opt(name)
        .await
        .map_err(|error| Problem::api("The image cannot be read", error))?;
    let Some(found) = found else {
        return Err(Problem::invalid(format!(
            "There is no image {name} in namespace {namespace}."
        )));
    };
    match architecture_of(&found) {
        same if same == architecture => Ok(()),
        // The architecture is unknown; the page showed a warning.
        "" => Ok(()),
        other => Err(Problem::invalid(format!(
            "Image {name} is for {other:?}, and the virtual machine for {architecture}."
        ))),
    }
}
