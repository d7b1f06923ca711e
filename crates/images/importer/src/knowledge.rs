//! The platforms of images, in the form placement decisions read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use oci::{Client, Image, Keyring};
use placement::{Inspection, Uninspectable};
use platform::{Reference, Source};

use crate::{platforms, told};

/// Images inspected concurrently.
const CONCURRENT_INSPECTIONS: usize = 8;

/// Inspects images, each once.
pub async fn knowledge(
    images: BTreeSet<String>,
    client: &Client,
    keyring: &Arc<Keyring>,
) -> BTreeMap<String, Inspection> {
    let looks = images.into_iter().map(|name| async move {
        let known = look_at(&name, client, keyring.clone()).await;
        (name, known)
    });
    stream::iter(looks)
        .buffer_unordered(CONCURRENT_INSPECTIONS)
        .collect()
        .await
}

async fn look_at(name: &str, client: &Client, keyring: Arc<Keyring>) -> Inspection {
    let cannot = |message: String, passing: bool| {
        Inspection::Uninspectable(Uninspectable { message, passing })
    };
    // An image name in a pod always refers to a registry, even if it looks like a path: no local file
    // is opened for it.
    let source = match name.parse::<Reference>() {
        Ok(reference) => Source::Registry(reference),
        Err(error) => return cannot(told(&error), false),
    };
    let inspected = async {
        let image = Image::open(&source, client, keyring).await?;
        platforms(&image, name).await
    };
    match inspected.await {
        Ok(inspection) if inspection.platforms.is_empty() => Inspection::Anywhere,
        Ok(inspection) => {
            let platforms = inspection.platforms.into_iter();
            Inspection::Platforms(platforms.map(|entry| entry.platform).collect())
        }
        Err(error) => cannot(told(&error), error.is_transient()),
    }
}
