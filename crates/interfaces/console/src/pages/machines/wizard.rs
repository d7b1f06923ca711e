//! Making a virtual machine: first the architecture, then what starts on it, then how much of everything.
//!
//! Each step is a page with an address, so that it works without JavaScript, and going back changes a choice.

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
use crate::rights::Right;
use crate::viewer::{Unseen, Viewer};
use crate::visitor::{Fields, Visitor};

/// Nodes that run virtual machines say so.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// So many namespaces are asked about one by one, for who may not make machines everywhere.
const ASKED: usize = 50;

/// How far the choice is.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chosen {
    arch: Option<String>,
    image: Option<String>,
    template: Option<String>,
}

/// An architecture that machines can have.
struct Architecture {
    name: String,
    nodes: usize,
    makes: String,
    images: usize,
}

/// An image to start from.
struct Image {
    /// Namespace and name.
    value: String,
    name: String,
    namespace: String,
    /// Whether anybody says what it is for.
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

/// What the last step begins with.
struct Details {
    image: String,
    template: Option<String>,
    cores: String,
    memory: String,
    namespaces: Vec<String>,
    /// Whether Medley can choose the model of the CPU.
    can_match: bool,
}

#[derive(Template)]
#[template(path = "wizard.html")]
struct Wizard {
    layout: Layout,
    architectures: Result<Vec<Architecture>, Unseen>,
    architecture: Option<String>,
    images: Result<Vec<Image>, Unseen>,
    templates: Vec<TemplateLine>,
    details: Option<Details>,
}

pub(super) async fn show(
    visitor: Visitor,
    Query(chosen): Query<Chosen>,
) -> Result<Response, Problem> {
    let viewer = visitor.viewer();
    let sources = viewer.all::<DataSource>().await;
    if sources == Err(Unseen::SignedOut) {
        return Err(Unseen::SignedOut.into());
    }
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

/// The architectures of the nodes that run machines.
async fn architectures(
    viewer: &Viewer,
    sources: &[std::sync::Arc<DataSource>],
) -> Result<Vec<Architecture>, Unseen> {
    let nodes = viewer.all::<Node>().await?;
    let mut found: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for node in &nodes {
        let runs = node
            .labels()
            .get(SCHEDULABLE)
            .is_some_and(|it| it == "true");
        if let (true, Some(architecture)) = (runs, cpu_models::architecture_of(node)) {
            let (count, makes) = found.entry(architecture).or_default();
            *count += 1;
            makes.extend(host_model_of(node));
        }
    }
    let lines = found.into_iter().map(|(name, (nodes, makes))| {
        let makes: Vec<&str> = makes.into_iter().collect();
        let images = sources.iter().filter(|it| is_offered(it, name));
        Architecture {
            images: images.count(),
            name: name.to_owned(),
            nodes,
            makes: makes.join(", "),
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

/// Whether an image is offered for an architecture: it is for it, or nobody says what it is for, as where images
/// are not kept by architecture. A name that stands for another image is offered by that one.
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

/// The templates of an architecture; none where there are no templates, or none that the user may see.
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

/// Where the user may make machines.
async fn namespaces(viewer: &Viewer) -> Vec<String> {
    let all = viewer.all::<Namespace>().await.unwrap_or_default();
    let mut names: Vec<String> = all.iter().map(|it| it.name_any()).collect();
    names.sort();
    if viewer
        .may(&Right::to::<VirtualMachine>("create", None))
        .await
    {
        return names;
    }
    let mut allowed = Vec::new();
    for name in names.into_iter().take(ASKED) {
        let right = Right::to::<VirtualMachine>("create", Some(&name));
        if viewer.may(&right).await {
            allowed.push(name);
        }
    }
    allowed
}

/// Makes the machine, as the user.
pub(super) async fn create(visitor: Visitor, fields: Fields) -> Result<Response, Problem> {
    let architecture = fields.need("arch")?;
    let image = fields.need("image")?;
    let Some(image) = image.split_once('/') else {
        return Err(Problem::invalid(format!(
            "{image:?} is no image: namespace/name of a DataSource is accepted."
        )));
    };
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
    let object: VirtualMachine = serde_json::from_value(object)
        .map_err(|error| Problem::broken(format!("The machine cannot be written: {error}")))?;
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<VirtualMachine> = Api::namespaced(visitor.client().clone(), &namespace);
    let params = PostParams {
        field_manager: Some(crate::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = api
        .create(&params, &object)
        .await
        .map_err(|error| Problem::api("The virtual machine was not made", error))?;
    visitor.viewer().saw(&made).await;
    let told = format!("Virtual machine {namespace}/{} was made.", made.name_any());
    Ok(visitor.done(told, PATH))
}

/// Whether the image is of the architecture, where that can be seen.
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
        // Nobody says what it is for; whoever chose it was told.
        "" => Ok(()),
        other => Err(Problem::invalid(format!(
            "Image {name} is for {other:?}, and the machine was to be {architecture}."
        ))),
    }
}
