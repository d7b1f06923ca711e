//! Static assets, embedded in the program. Their path contains a digest of their content.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::error::Problem;
use crate::secret::fingerprint;

/// Caching of assets: other content has another path, so they never expire.
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

/// Digest over all assets.
static EDITION: LazyLock<String> = LazyLock::new(|| {
    let all: String = ASSETS.iter().map(|asset| asset.content).collect();
    let mut edition = String::new();
    for byte in &fingerprint(&all)[..6] {
        // Writing to a string cannot fail.
        let _ = write!(edition, "{byte:02x}");
    }
    edition
});

/// Path prefix of the assets.
pub(crate) fn folder() -> String {
    format!("/assets/{}", *EDITION)
}

/// Serves one asset.
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
