//! One image: what its name resolves to, and the state of every architecture.

use api::cdi::DataImportCron;
use api::golden::GoldenImagePolicy;
use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use golden_images::overview::{Image, Pointer, Variant, explain, human_size};
use machinery::time::{format_time, human_duration};

use super::view::{ImagesView, read};
use super::{Level, PATH, Page, level, percent, short_digest, state_word};
use crate::error::Problem;
use crate::layout::Layout;
use crate::permissions::Permission;
use crate::visitor::Visitor;

/// A version that was in use.
struct Version {
    digest: String,
    whole: String,
    since: String,
    volume: String,
    in_use: bool,
    is_kept: bool,
    is_pinned: bool,
}

/// An image of an architecture.
struct VariantView {
    source: String,
    architecture: String,
    state: &'static str,
    level: Level,
    progress: Option<String>,
    is_default: bool,
    pinned: Option<String>,
    facts: Vec<(&'static str, String)>,
    because: Vec<String>,
    next: Vec<String>,
    versions: Vec<Version>,
    has_cron: bool,
    can_go_back: bool,
}

#[derive(Template)]
#[template(path = "image.html")]
struct ImagePage {
    layout: Layout,
    namespace: String,
    name: String,
    pointer: Option<Pointer>,
    pointer_state: Vec<String>,
    variants: Vec<VariantView>,
    complaints: Vec<String>,
    may_pin: bool,
    may_refresh: bool,
}

/// An image that the user may read.
pub(super) async fn find(
    visitor: &Visitor,
    namespace: &str,
    name: &str,
) -> Result<(ImagesView, Image), Problem> {
    let images_view = read(visitor.viewer()).await?;
    let mut images = images_view.objects.images();
    let at = images
        .iter()
        .position(|image| image.namespace == namespace && image.name == name);
    match at {
        Some(at) => Ok((images_view, images.swap_remove(at))),
        None => Err(Problem::missing(format!(
            "There is no image {name} in namespace {namespace}."
        ))),
    }
}

pub(super) async fn show(
    visitor: Visitor,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (images_view, image) = find(&visitor, &namespace, &name).await?;
    let viewer = visitor.viewer();
    let patch = Permission::to::<GoldenImagePolicy>("patch", None);
    let create = Permission::to::<GoldenImagePolicy>("create", None);
    let refresh = Permission::to::<DataImportCron>("patch", Some(&namespace));
    let (patch, create, may_refresh) = tokio::join!(
        viewer.may(&patch),
        viewer.may(&create),
        viewer.may(&refresh)
    );
    let explained = explain(&image, None, images_view.objects.now);
    let pointer_state = explained.iter().filter(|it| it.data_source == image.name);
    let pointer_state = pointer_state.filter(|_| image.pointer.is_some());
    let variants = image.architectures.iter().map(|variant| {
        let explained = explain(&image, Some(&variant.architecture), images_view.objects.now);
        let explained = explained
            .into_iter()
            .find(|it| it.data_source == variant.data_source);
        let mut view = VariantView::new(variant, &images_view);
        if let Some(explained) = explained {
            view.because = explained.because;
            view.next = explained.next;
        }
        view
    });
    Page::html(&ImagePage {
        layout: visitor.layout(name.clone(), PATH),
        pointer_state: pointer_state
            .flat_map(|it| [vec![it.state.clone()], it.because.clone()].concat())
            .collect(),
        variants: variants.collect(),
        pointer: image.pointer.clone(),
        complaints: images_view.complaints,
        may_pin: patch && create,
        may_refresh,
        namespace,
        name,
    })
}

impl VariantView {
    fn new(variant: &Variant, images_view: &ImagesView) -> Self {
        let mut facts = Vec::new();
        let mut fact = |title, value: Option<String>| facts.extend(value.map(|it| (title, it)));
        let ago = |at: &jiff::Timestamp| {
            let age = human_duration(images_view.objects.now.duration_since(*at));
            format!("{} ({age} ago)", format_time(*at))
        };
        fact("In use", variant.digest.clone());
        fact("Since", variant.since.as_ref().map(ago));
        fact("Size", variant.size.as_deref().map(human_size));
        fact("Volume", variant.volume.clone());
        let newer = variant
            .newest
            .clone()
            .filter(|it| Some(it) != variant.digest.as_ref());
        fact("Newest", newer);
        fact("Source", variant.url.clone());
        fact("Last asked", variant.last_poll.as_ref().map(ago));
        fact("Asked again", variant.next_poll.map(format_time));
        fact("Tried again", variant.next_retry.map(format_time));
        let mut seen: Vec<&str> = Vec::new();
        let versions = variant.history.iter().filter(|entry| {
            let first = !seen.contains(&entry.digest.as_str());
            seen.push(&entry.digest);
            first
        });
        let versions: Vec<Version> = versions
            .map(|entry| Version {
                digest: short_digest(&entry.digest),
                whole: entry.digest.clone(),
                since: entry.since.clone(),
                volume: format!("{}/{}", entry.format, entry.name),
                in_use: variant.digest.as_ref() == Some(&entry.digest),
                is_kept: variant.kept.contains(&entry.digest),
                is_pinned: variant.pinned.as_ref() == Some(&entry.digest),
            })
            .collect();
        Self {
            source: variant.data_source.clone(),
            architecture: variant.architecture.clone(),
            state: state_word(variant),
            level: level(variant),
            progress: percent(variant),
            is_default: variant.is_default,
            pinned: variant.pinned.as_deref().map(short_digest),
            because: Vec::new(),
            next: Vec::new(),
            has_cron: variant.cron.is_some(),
            can_go_back: versions.len() > 1,
            versions,
            facts,
        }
    }
}
