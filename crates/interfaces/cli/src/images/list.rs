//! `medley images`: the boot images of a cluster, one line per architecture.

use api::ssp::GOLDEN_NAMESPACE;
use clap::Args;
use golden_images::overview::{Image, Variant, human_size};
use jiff::Timestamp;
use machinery::time::human_duration;
use serde_json::{Value, json};

use super::objects::read;
use crate::cluster::ClusterArguments;
use crate::output::{Form, remark, short_digest, table};
use crate::{exit, process};

/// Show the boot images of a cluster.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Output format.
    /// [default: table]
    #[arg(short, long, value_enum)]
    output: Option<Form>,

    /// Namespace of the images.
    #[arg(short, long, value_name = "NAME", default_value = GOLDEN_NAMESPACE)]
    namespace: String,

    /// Show the images of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let objects = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let namespace = (!arguments.all_namespaces).then_some(arguments.namespace.as_str());
        read(&client, namespace).await
    })?;
    let images = objects.images();
    if let Some(data) = arguments.output.and_then(Form::data) {
        return exit::print(&data.write(&list(&images))?);
    }
    let text = match arguments.output {
        _ if images.is_empty() && arguments.all_namespaces => {
            remark("No images found.");
            return Ok(());
        }
        _ if images.is_empty() => {
            let namespace = &arguments.namespace;
            remark(&format!(
                "No images in namespace {namespace}; use -A for all namespaces."
            ));
            return Ok(());
        }
        Some(Form::Name) => names(&images),
        form => {
            let wide = form == Some(Form::Wide);
            render(&images, arguments.all_namespaces, wide, objects.now)
        }
    };
    exit::print(&text)
}

fn list(images: &[Image]) -> Value {
    let items: Vec<Value> = images.iter().map(Image::to_value).collect();
    json!({ "kind": "List", "items": items })
}

/// `datasource.GROUP/NAME` lines, for `-o name`.
fn names(images: &[Image]) -> String {
    let variants = images.iter().flat_map(|image| &image.architectures);
    let names: Vec<String> = variants
        .map(|it| format!("datasource.{}/{}\n", api::cdi::GROUP, it.data_source))
        .collect();
    names.concat()
}

fn render(images: &[Image], namespaces: bool, wide: bool, now: Timestamp) -> String {
    let mut headers = vec!["IMAGE", "ARCHITECTURE", "STATE", "DIGEST", "AGE", "SIZE"];
    if namespaces {
        headers.insert(0, "NAMESPACE");
    }
    if wide {
        headers.extend(["NEWEST", "PINNED", "VOLUME", "DATASOURCE", "SOURCE"]);
    }
    let mut rows = Vec::new();
    for image in images {
        for variant in &image.architectures {
            let mut row = row(image, variant, now);
            if namespaces {
                row.insert(0, image.namespace.clone());
            }
            if wide {
                row.extend(more(variant));
            }
            rows.push(row);
        }
    }
    table(&headers, rows)
}

fn row(image: &Image, variant: &Variant, now: Timestamp) -> Vec<String> {
    let default = if variant.is_default { ",default" } else { "" };
    let age = variant.since;
    let age = age.map(|since| human_duration(now.duration_since(since)));
    let digest = variant.digest.as_deref().map(short_digest);
    vec![
        image.name.clone(),
        format!("{}{default}", variant.architecture),
        state(variant),
        digest.unwrap_or_default(),
        age.unwrap_or_default(),
        variant.size.as_deref().map(human_size).unwrap_or_default(),
    ]
}

/// `Ready`, `Failed:TooSmall`, `Pending:42.17%`.
fn state(variant: &Variant) -> String {
    let why = variant.progress.as_ref().or(variant.reason.as_ref());
    match why {
        Some(why) => format!("{}:{why}", variant.state),
        None => variant.state.to_string(),
    }
}

fn more(variant: &Variant) -> [String; 5] {
    let short = |digest: &Option<String>| digest.as_deref().map(short_digest).unwrap_or_default();
    [
        short(&variant.newest),
        short(&variant.pinned),
        variant.volume.clone().unwrap_or_default(),
        variant.data_source.clone(),
        variant.url.clone().unwrap_or_default(),
    ]
}
