//! Images, read by the rules of importers.

use std::io::Read as _;

use platform::document::{self, read_config};
use platform::{Document, Matcher, Search, SearchStep};
use rstest::rstest;

use super::*;
use crate::registry::catalog::{IMAGES, image};
use crate::registry::holdings::{Publication, Revisions};

fn published(image: &'static Image, revision: &Revision) -> Published {
    publish(image, revision, |recipe| Ok(recipe.make()?.metadata)).unwrap()
}

fn read(published: &Published, digest: &Digest) -> Document {
    let found = published.documents.iter().find(|it| it.0 == *digest);
    let (_, media_type, bytes) = found.unwrap();
    digest.verify(bytes).unwrap();
    document::read(bytes, Some(media_type.as_str())).unwrap()
}

fn config_of(published: &Published, manifest: &Manifest) -> platform::ImageConfig {
    let digest = &manifest.config.digest;
    let found = published.blobs.iter().find(|it| it.0 == *digest);
    read_config(&found.unwrap().1).unwrap()
}

/// The manifest for an architecture, as importers select it.
fn choose(published: &Published, architecture: Architecture) -> Option<Manifest> {
    let mut search = Search::new(Matcher::architecture("linux", architecture.name()));
    let root = published.root.clone()?;
    let mut step = search.begin(root.clone(), read(published, &root));
    loop {
        step = match step {
            SearchStep::Found(found) => match read(published, &found.image.digest) {
                Document::Manifest(manifest) => return Some(*manifest),
                Document::Index(_) => return None,
            },
            SearchStep::Missing(_) => return None,
            SearchStep::Fetch(platform::Fetch::Document(wanted)) => {
                search.document(read(published, &wanted.digest))
            }
            SearchStep::Fetch(platform::Fetch::Config(wanted)) => {
                let found = published.blobs.iter().find(|it| it.0 == wanted.digest);
                search.config(read_config(&found?.1).ok()?)
            }
        };
    }
}

#[rstest]
fn importers_find_exactly_the_images_architectures(
    #[values(0, 1, 2, 3, 4)] image: usize,
    #[values(Architecture::Amd64, Architecture::Arm64, Architecture::S390x)]
    architecture: Architecture,
) {
    let image = &IMAGES[image];
    let published = published(image, Revisions::first(image).newest());
    let found = choose(&published, architecture);
    assert_eq!(found.is_some(), image.architectures.contains(&architecture));
    let Some(manifest) = found else { return };
    let config = config_of(&published, &manifest);
    assert_eq!(config.platform.architecture, architecture.name());
    let (layer, diff_id) = manifest.layers_of(&config).unwrap().next().unwrap();
    let (_, recipe) = published
        .layers
        .iter()
        .find(|it| it.0 == layer.digest)
        .unwrap();
    let made = recipe.make().unwrap().bytes;
    layer.digest.verify(&made).unwrap();
    assert_eq!(layer.size, made.len() as u64);
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(&made[..])
        .read_to_end(&mut tar)
        .unwrap();
    diff_id.verify(&tar).unwrap();
    // The directory, then the disk, whose digest is the label.
    assert!(tar.starts_with(b"disk/\0"));
    assert!(tar[512..].starts_with(b"disk/disk.img\0"));
    let size = std::str::from_utf8(&tar[512 + 124..512 + 135]).unwrap();
    let size = usize::from_str_radix(size, 8).unwrap();
    let disk = &tar[1024..1024 + size];
    assert!(disk.starts_with(b"QFI\xfb"));
    assert_eq!(config.labels["shasum"], Digest::sha256(disk).hash());
}

#[test]
fn only_published_architectures_change() {
    let image = image("fedora").unwrap();
    let mut revisions = Revisions::first(image);
    let before = published(image, revisions.newest());
    let architecture = Architecture::Arm64;
    revisions
        .publish(image, Publication::One(architecture))
        .unwrap();
    let after = published(image, revisions.newest());
    assert_ne!(before.root, after.root);
    for it in Architecture::ALL {
        let (old, new) = (choose(&before, it).unwrap(), choose(&after, it).unwrap());
        let label = |all: &Published, of: &Manifest| config_of(all, of).labels["shasum"].clone();
        let same_disk = label(&before, &old) == label(&after, &new);
        assert_eq!(old == new, it != architecture, "{it}");
        assert_eq!(same_disk, it != architecture, "{it}");
    }
}

#[test]
fn rebuild_changes_digests_but_not_disks() {
    let image = image("centos-stream9").unwrap();
    let mut revisions = Revisions::first(image);
    let before = published(image, revisions.newest());
    revisions.publish(image, Publication::Rebuild).unwrap();
    let after = published(image, revisions.newest());
    for it in Architecture::ALL {
        let (old, new) = (choose(&before, it).unwrap(), choose(&after, it).unwrap());
        assert_ne!(old.layers, new.layers, "{it}");
        let (old, new) = (config_of(&before, &old), config_of(&after, &new));
        assert_eq!(old.labels, new.labels, "{it}");
        assert_ne!(old.diff_ids, new.diff_ids, "{it}");
    }
}

#[test]
fn images_cover_all_structures() {
    let index = |name: &str| {
        let image = image(name).unwrap();
        let published = published(image, Revisions::first(image).newest());
        match read(&published, published.root.as_ref().unwrap()) {
            Document::Index(index) => Some(index),
            Document::Manifest(_) => None,
        }
    };
    let fedora = index("fedora").unwrap();
    assert_eq!(fedora.media_type, MediaType::OciIndex);
    let attestations = fedora.manifests.iter().filter(|it| it.no_image().is_some());
    assert_eq!(attestations.count(), 3);
    let centos = index("centos-stream10").unwrap();
    assert_eq!(centos.media_type, MediaType::DockerList);
    let variants: Vec<&str> = centos
        .manifests
        .iter()
        .filter_map(|it| it.stated_platform())
        .map(|platform| platform.variant.as_str())
        .collect();
    assert_eq!(variants, ["", "v8", ""]);
    assert!(index("debian").is_none());
}
