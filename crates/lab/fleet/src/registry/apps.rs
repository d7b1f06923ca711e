//! Small images of applications: what differs between them is what they are for. They hold no program that
//! anybody could run, and never change.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::component::{Part, Shelved};
use super::image::Published;

/// The tag that all of them have.
pub const TAG: &str = "1";

/// An image of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct App {
    /// Where it is in the registry.
    pub repository: &'static str,
    /// What it is made for, in the order of its entries.
    pub platforms: &'static [&'static str],
    /// Whether there is an index; otherwise it is the one image.
    pub is_index: bool,
}

/// All of them.
pub static APPS: [App; 4] = [
    // A node that pulls it compares it with itself only if it is in an index.
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

/// Makes all of them.
pub(super) fn shelved() -> std::io::Result<Vec<Shelved>> {
    let shelved = |app: &App| {
        Ok(Shelved::new(
            app.repository,
            Some(TAG.to_owned()),
            made(app)?,
        ))
    };
    APPS.iter().map(shelved).collect()
}

/// Each part has one file, which says what it is.
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
