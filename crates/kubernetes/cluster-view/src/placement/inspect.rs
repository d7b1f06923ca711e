//! The platforms of images, read once and not cached: for commands and the console.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use oci::resolve::{self, platforms};
use oci::{Client, Image, Keyring, error_chain};
use placement::{Inspection, Uninspectable};
use platform::{Reference, Source};

/// Images inspected concurrently.
const CONCURRENT_INSPECTIONS: usize = 8;

/// Inspects images, each once.
pub async fn inspect_images(
    images: BTreeSet<String>,
    client: &Client,
    keyring: &Arc<Keyring>,
) -> BTreeMap<String, Inspection> {
    let looks = images.into_iter().map(|name| async move {
        let known = inspect(&name, client, keyring.clone()).await;
        (name, known)
    });
    stream::iter(looks)
        .buffer_unordered(CONCURRENT_INSPECTIONS)
        .collect()
        .await
}

async fn inspect(name: &str, client: &Client, keyring: Arc<Keyring>) -> Inspection {
    let cannot = |message: String, transient: bool| {
        Inspection::Uninspectable(Uninspectable { message, transient })
    };
    // An image name in a pod always refers to a registry, even if it looks like a path: no local file
    // is opened for it.
    let source = match name.parse::<Reference>() {
        Ok(reference) => Source::Registry(reference),
        Err(error) => return cannot(error_chain(&error), false),
    };
    let inspected = async {
        let image = Image::open(&source, client, keyring).await?;
        platforms(&image, name).await
    };
    match inspected.await {
        Ok(inspection) => inspection_of(inspection),
        Err(error) => cannot(error_chain(&error), error.is_transient()),
    }
}

/// The platforms of an image as placement decisions read them.
pub(super) fn inspection_of(image: resolve::Inspection) -> Inspection {
    if image.platforms.is_empty() {
        return Inspection::Anywhere;
    }
    let platforms = image.platforms.into_iter();
    Inspection::Platforms(platforms.map(|entry| entry.platform).collect())
}
