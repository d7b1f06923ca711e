//! What images are for, by the registries that have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use oci::{Client, Image, Keyring};
use placement::{Knowledge, Uninspectable};
use platform::{Reference, Source};

use crate::{platforms, told};

/// How many images are looked at at a time.
const AT_A_TIME: usize = 8;

/// Looks at images, each once.
pub async fn knowledge(
    images: BTreeSet<String>,
    client: &Client,
    keyring: &Arc<Keyring>,
) -> BTreeMap<String, Knowledge> {
    let looks = images.into_iter().map(|name| async move {
        let known = look_at(&name, client, keyring.clone()).await;
        (name, known)
    });
    stream::iter(looks)
        .buffer_unordered(AT_A_TIME)
        .collect()
        .await
}

async fn look_at(name: &str, client: &Client, keyring: Arc<Keyring>) -> Knowledge {
    let cannot = |message: String, passing: bool| {
        Knowledge::Uninspectable(Uninspectable { message, passing })
    };
    // What a pod names is in a registry, whatever it looks like: no file is read because of it.
    let source = match name.parse::<Reference>() {
        Ok(reference) => Source::Registry(reference),
        Err(error) => return cannot(told(&error), false),
    };
    let inspected = async {
        let image = Image::open(&source, client, keyring).await?;
        platforms(&image, name).await
    };
    match inspected.await {
        Ok(inspection) if inspection.platforms.is_empty() => Knowledge::Anywhere,
        Ok(inspection) => {
            let platforms = inspection.platforms.into_iter();
            Knowledge::Platforms(platforms.map(|entry| entry.platform).collect())
        }
        Err(error) => cannot(told(&error), error.is_transient()),
    }
}
