//! The files that pages refer to. They are in the program, and their names change with their content.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::error::Problem;
use crate::secret::fingerprint;

/// What a browser may keep for ever: with another content it has another name.
const FOREVER: &str = "public, max-age=31536000, immutable";

struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "console.css",
        kind: "text/css; charset=utf-8",
        content: include_str!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        kind: "text/javascript; charset=utf-8",
        content: include_str!("../assets/console.js"),
    },
    Asset {
        name: "icon.svg",
        kind: "image/svg+xml",
        content: include_str!("../assets/icon.svg"),
    },
];

/// Stands for the content of all of them.
static EDITION: LazyLock<String> = LazyLock::new(|| {
    let all: String = ASSETS.iter().map(|asset| asset.content).collect();
    let mut edition = String::new();
    for byte in &fingerprint(&all)[..6] {
        // A String takes everything.
        let _ = write!(edition, "{byte:02x}");
    }
    edition
});

/// Where a page finds them.
pub(crate) fn folder() -> String {
    format!("/assets/{}", *EDITION)
}

/// One of them.
pub(crate) async fn asset(Path((edition, name)): Path<(String, String)>) -> Response {
    let found = ASSETS
        .iter()
        .find(|asset| asset.name == name && edition == *EDITION);
    match found {
        Some(asset) => (
            [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, FOREVER)],
            asset.content,
        )
            .into_response(),
        None => Problem::missing("There is no such file.").into_response(),
    }
}
