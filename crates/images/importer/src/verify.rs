//! Asks a registry whether a digest that was imported has a manifest for an architecture.

use std::sync::Arc;

use golden_images::cdi::failure::{Failure, Reason};
use golden_images::list::normal;
use golden_images::verify::{Answer, Question};
use oci::resolve::{self, OS, choose, platforms};
use oci::{Client, Image, Keyring};
use platform::{Digest, Source};

use crate::error::Error;

/// The image of a question, by the digest that was imported; a failure if it is in no registry.
pub fn imported(source: &Source, digest: &str) -> Result<Source, Failure> {
    let invalid = |why: String| Failure::new(Reason::ImportFailed, why);
    let Some(reference) = source.reference() else {
        return Err(invalid(format!("{source} is not an image in a registry")));
    };
    let digest: Digest = digest
        .parse()
        .map_err(|_| invalid(format!("{digest:?} is not a digest")))?;
    Ok(Source::Registry(reference.with_digest(digest)))
}

/// Asks the registry. An index costs one request, and the manifest and the config of the architecture one each; all are
/// cached by the client, as digests never change what they stand for.
pub async fn ask(
    client: &Client,
    keyring: &Arc<Keyring>,
    source: &Source,
    question: &Question,
) -> Result<Answer, Failure> {
    let failed = |error: resolve::Error| Error::from(error).failure();
    let pinned = imported(source, &question.digest)?;
    let name = pinned.to_string();
    let image = Image::open(&pinned, client, Arc::clone(keyring)).await;
    let image = image.map_err(|error| Error::from(error).failure())?;
    let found = platforms(&image, &name).await.map_err(failed)?;
    let linux = found.platforms.iter().filter(|it| it.platform.os == OS);
    let architectures = linux.map(|it| normal(&it.platform.architecture));
    let manifest = choose(&image, &name, &question.architecture).await;
    Ok(Answer {
        is_index: found.is_index,
        architectures: architectures.filter(|it| !it.is_empty()).collect(),
        manifest: manifest
            .map(|chosen| chosen.digest.to_string())
            .map_err(failed),
    })
}
