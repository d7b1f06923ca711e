//! `medley images`: the boot images of a cluster, one line per architecture.

use api::cdi::{DataImportCron, DataSource, DataVolume};
use api::golden::GoldenImagePolicy;
use api::ssp::GOLDEN_NAMESPACE;
use clap::Args;
use golden_images::overview::{Image, Variant, human_size};
use jiff::Timestamp;
use kube::{Api, Client};
use machinery::time::human_duration;
use serde_json::{Value, json};

use super::objects::read;
use crate::cluster::ClusterArguments;
use crate::output::{Form, ListOutputArguments, remark, short_digest};
use crate::read::scoped;
use crate::selector::SelectorArguments;
use crate::watch::{Changes, Rows, WatchArguments};
use crate::{exit, process};

/// Show the boot images of a cluster.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    output: ListOutputArguments,

    /// Namespace of the images.
    #[arg(short, long, value_name = "NAME", default_value = GOLDEN_NAMESPACE)]
    namespace: String,

    /// Show the images of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    #[command(flatten)]
    selector: SelectorArguments,

    #[command(flatten)]
    watch: WatchArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let watch = arguments.watch.is_set(&arguments.output)?;
    let (images, now) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        if watch {
            arguments.watch(&client).await?;
        }
        arguments.images(&client).await
    })?;
    if let Some(text) = arguments.output.data(|| list(&images))? {
        return exit::print(&text);
    }
    if images.is_empty() {
        remark(&arguments.nothing());
        return Ok(());
    }
    exit::print(&arguments.text(&images, now))
}

impl Arguments {
    fn namespace(&self) -> Option<&str> {
        (!self.all_namespaces).then_some(self.namespace.as_str())
    }

    /// The selected images, and the time of their ages.
    async fn images(&self, client: &Client) -> anyhow::Result<(Vec<Image>, Timestamp)> {
        let objects = read(client, self.namespace()).await?;
        let mut images = objects.images();
        let api = scoped::<DataSource>(client, self.namespace());
        if let Some(selected) = self.selector.selected(&api).await? {
            for image in &mut images {
                let namespace = &image.namespace;
                image
                    .architectures
                    .retain(|it| selected.contains(&(namespace.clone(), it.data_source.clone())));
            }
            images.retain(|it| !it.architectures.is_empty());
        }
        Ok((images, objects.now))
    }

    /// Prints the images, and those that change, until the process is stopped.
    async fn watch(&self, client: &Client) -> anyhow::Result<()> {
        let mut changes = Changes::default();
        changes.follow(scoped::<DataSource>(client, self.namespace()));
        changes.follow(scoped::<DataImportCron>(client, self.namespace()));
        changes.follow(scoped::<DataVolume>(client, self.namespace()));
        changes.follow(Api::<GoldenImagePolicy>::all(client.clone()));
        let start = Timestamp::now();
        let read = async || {
            let (images, now) = self.images(client).await?;
            Ok(Rows {
                shown: self.text(&images, now),
                compared: self.text(&images, start),
            })
        };
        changes.print(read).await
    }

    fn nothing(&self) -> String {
        if self.all_namespaces {
            return "No images found.".to_owned();
        }
        let namespace = &self.namespace;
        format!("No images in namespace {namespace}; use -A for all namespaces.")
    }

    fn text(&self, images: &[Image], now: Timestamp) -> String {
        match self.output.form() {
            Some(Form::Name) => names(images),
            form => self.render(images, form == Some(Form::Wide), now),
        }
    }
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

impl Arguments {
    fn render(&self, images: &[Image], wide: bool, now: Timestamp) -> String {
        let namespaces = self.all_namespaces;
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
        self.output.table(&headers, rows)
    }
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
