//! Small application images that differ in their platforms. They contain no executable program and
//! never change.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::component::{Part, StaticImage};
use super::image::Published;

/// The tag of all of them.
pub const TAG: &str = "1";

/// An application image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct App {
    /// Its repository.
    pub repository: &'static str,
    /// Its platforms, in the order of the index.
    pub platforms: &'static [&'static str],
    /// Whether it is an index; otherwise it is a single image.
    pub is_index: bool,
}

/// All application images.
pub static APPS: [App; 4] = [
    // A node compares the platform only if the image is in an index.
    App {
        repository: "apps/amd64-only",
        platforms: &["linux/amd64"],
        is_index: false,
    },
    App {
        repository: "apps/arm64-only",
        platforms: &["linux/arm64/v8"],
        is_index: true,
    },
    App {
        repository: "apps/everywhere",
        platforms: &["linux/amd64", "linux/arm64/v8", "linux/s390x"],
        is_index: true,
    },
    App {
        repository: "apps/windows",
        platforms: &[
            "windows(10.0.17763.6532)/amd64",
            "windows(10.0.20348.2849)/amd64",
            "windows(10.0.26100.2314)/amd64",
        ],
        is_index: true,
    },
];

/// Builds all of them.
pub(super) fn shelved() -> std::io::Result<Vec<StaticImage>> {
    let shelved = |app: &App| {
        Ok(StaticImage::new(
            app.repository,
            Some(TAG.to_owned()),
            made(app)?,
        ))
    };
    APPS.iter().map(shelved).collect()
}

/// Each image has one file, which names its platform.
fn made(app: &App) -> std::io::Result<Published> {
    let parts = app.platforms.iter().map(|text| {
        let says = format!("{} for {text}\n", app.repository);
        Ok(Part {
            platform: text.parse().map_err(std::io::Error::other)?,
            files: BTreeMap::from([("app.txt".to_owned(), says)]),
        })
    });
    let parts: Vec<Part> = parts.collect::<std::io::Result<_>>()?;
    Published::of(&parts, app.is_index)
}
